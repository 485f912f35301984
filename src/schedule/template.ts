// Texts with {{variables}}, filled with what is known of one person. Nothing but names can stand there: no expression, no path, and what
// is filled in is not looked at again. Pure.
const VARIABLE = /\{\{\s*([A-Za-z_][A-Za-z0-9_]{0,63})\s*\}\}/g;
const MARK = /\{\{|\}\}/;

export type Variables = Readonly<Record<string, unknown>>;

/** The names in a text, each once. */
function variablesOf(text: string): string[] {
  return [...new Set([...text.matchAll(VARIABLE)].map(([, name = ""]) => name))];
}

/** What stands in a text between braces and is no variable; null: nothing. */
export function strayMark(text: string): string | null {
  const rest = text.replaceAll(VARIABLE, "");
  const at = rest.search(MARK);
  return at === -1 ? null : rest.slice(at, at + 30);
}

/** The text, or the names of variables that have no value for this person: text, a number or yes and no. */
export function fillIn(
  text: string,
  variables: Variables,
): Readonly<{ text: string }> | Readonly<{ missing: string[] }> {
  const missing = variablesOf(text).filter((name) => valueOf(variables, name) === undefined);
  if (missing.length > 0) return { missing };
  return { text: text.replaceAll(VARIABLE, (_, name: string) => valueOf(variables, name) ?? "") };
}

function valueOf(variables: Variables, name: string): string | undefined {
  const value = Object.hasOwn(variables, name) ? variables[name] : undefined;
  if (typeof value === "string") return value.trim() === "" ? undefined : value;
  return typeof value === "number" || typeof value === "boolean" ? String(value) : undefined;
}
