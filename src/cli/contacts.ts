// `perdure contacts`: the people whom schedules write to.
import type { Deps } from "../core/deps.js";
import { DEFAULT_TENANT, type SuppressionId } from "../core/ids.js";
import { listContacts } from "../delivery/contacts.js";
import { suppressContact } from "../delivery/suppressions.js";
import { contactRecord } from "../engine/contact-record.js";
import { type Output, table } from "./output.js";
import { json } from "./wire.js";

type Print = Output & Readonly<{ json: boolean }>;

export async function contactsLs({ db }: Deps, limit: number, print: Print): Promise<void> {
  const found = await listContacts(db, { tenantId: DEFAULT_TENANT, key: null, limit, offset: 0 });
  const contacts = found.map(contactRecord);
  if (print.json) return print.line(json(contacts));
  const rows = contacts.map(({ key, time_zone, locale, opt_in, conversation_ids, contact_id }) => ({
    ...{ key, zone: time_zone, locale, marketing: opt_in?.at ?? null, conversations: conversation_ids.length },
    contact: contact_id,
  }));
  print.line(table(rows, "There are no contacts."));
}

export async function contactsSuppress(
  { db, ids }: Deps,
  contactKey: string,
  scope: "all" | "marketing",
  print: Print,
): Promise<void> {
  const suppression = {
    tenantId: DEFAULT_TENANT,
    suppressionId: ids.next<SuppressionId>(),
    scope,
    cause: "api",
  } as const;
  await db.tx((sql) => suppressContact(sql, { ...suppression, contactKey }));
  if (print.json) return print.line(json({ contact_key: contactKey, scope }));
  print.line(`Nothing${scope === "marketing" ? " for marketing" : " unasked"} goes to "${contactKey}" any more.`);
}
