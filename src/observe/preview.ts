// Masked previews: the only trace of content that may stay in Postgres, and it can be switched off.

const LIMIT = 200;
const MASKS: readonly (readonly [RegExp, string])[] = [
  [/[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g, "[email]"],
  [/\b(?:sk|pk|rk|ghp|gho|xox[abp]|AKIA|eyJ)[\w.-]{8,}/g, "[secret]"],
  [/\b(?:bearer|token|key|password|secret)\b["'\s:=]+\S+/gi, "[secret]"],
  [/\+?\d(?:[\d\s().-]{5,}\d)/g, "[number]"],
];

/** At most 200 characters of a text, on one line, with addresses, numbers and secrets masked. Never NUL or half a character. */
export function preview(text: string): string {
  let masked = text.slice(0, 2_000);
  for (const [pattern, mask] of MASKS) masked = masked.replace(pattern, mask);
  const line = masked.replace(/[\u0000-\u001f\u007f]+/g, " ").trim();
  return (line.length > LIMIT ? `${line.slice(0, LIMIT - 1)}…` : line).toWellFormed();
}
