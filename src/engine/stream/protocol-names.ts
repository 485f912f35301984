// Names of stored lines that only the thread protocol reads: whoever joins the run's own stream is not shown them.

const PREFIX = "protocol:";
/** Its data is the time, in ms, of the lines after it. */
export const TIME_LINE = `${PREFIX}time`;
/** A task's end is stored under a name of its own: each kind then repeats its own last one, which makes it short. */
export const RESULTS = "results";

/** The name of a line with what the protocol's method says in a namespace. */
export function protocolName(method: string, namespace: readonly string[]): string {
  return [PREFIX + method, ...namespace].join("|");
}

export function isOfProtocol(event: string): boolean {
  return event.startsWith(PREFIX);
}

/** The method of such a line; undefined for one that any run has. */
export function protocolMethod(name: string): string | undefined {
  return isOfProtocol(name) ? name.slice(PREFIX.length) : undefined;
}
