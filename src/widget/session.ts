// Who this browser is: a session for some minutes, and what it is renewed with, which the browser keeps so that a conversation goes on
// after weeks. Somebody whom the page has named is named by the page again, and nothing of theirs is kept.

export type Session = Readonly<{ token: string; conversationId: string }>;

export type SessionOptions = Readonly<{
  api: string;
  account: string;
  /** The page's word for who this is, as it is now. */
  identity: () => string | undefined;
}>;

export class Refused extends Error {
  override readonly name = "Refused";
  constructor(readonly status: number) {
    super(`the chat server answered ${status}`);
  }
}

/** Before the server would refuse it. */
const RENEW_MS = 10 * 60_000;

export function createSessions({ api, account, identity }: SessionOptions) {
  const kept = `perdure.widget.${account}`;
  let current: Promise<Session> | undefined;
  let renewAtMs = 0;

  async function make(): Promise<Session> {
    // Two tabs that are opened at once must not become two visitors.
    return exclusively(`${kept}.session`, async () => {
      const named = identity();
      const known = named === undefined ? read(kept) : undefined;
      const answer = await post(named === undefined ? { refresh_token: known } : { identity: named });
      if (answer.status === 401 && known !== undefined) {
        forget(kept);
        return taken(await post({}));
      }
      return taken(answer);
    });
  }

  async function taken(answer: Response): Promise<Session> {
    if (!answer.ok) throw new Refused(answer.status);
    const made = (await answer.json()) as Readonly<Record<string, string>> & { known: boolean };
    if (!made.known) keep(kept, made["refresh_token"] ?? "");
    renewAtMs = performance.now() + RENEW_MS;
    return { token: made["token"] ?? "", conversationId: made["conversation_id"] ?? "" };
  }

  const post = (who: object): Promise<Response> =>
    fetch(`${api}/v1/widget/sessions`, {
      method: "POST",
      credentials: "omit",
      headers: { "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify({
        account,
        ...who,
        time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
        locale: navigator.language,
      }),
    });

  return {
    /** Rejects with `Refused`, or when the network is away. */
    get(): Promise<Session> {
      if (current === undefined || performance.now() > renewAtMs) {
        const made = make();
        made.catch(() => current === made && (current = undefined));
        renewAtMs = Number.POSITIVE_INFINITY;
        current = made;
      }
      return current;
    },
    forget: () => void (current = undefined),
    /** Whether there may be a conversation already: nobody is asked for one before they open the chat. */
    isKnown: () => identity() !== undefined || read(kept) !== undefined,
  };
}

export type Sessions = ReturnType<typeof createSessions>;

/** One tab at a time, where browsers can do that. */
export async function exclusively<T>(name: string, work: () => Promise<T>): Promise<T> {
  return "locks" in navigator ? navigator.locks.request(name, work) : work();
}

// A page in a sandbox or with cookies blocked has no storage: the conversation then lasts as long as the page.
function read(key: string): string | undefined {
  try {
    return localStorage.getItem(key) ?? undefined;
  } catch {
    return undefined;
  }
}

function keep(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    return;
  }
}

function forget(key: string): void {
  try {
    localStorage.removeItem(key);
  } catch {
    return;
  }
}
