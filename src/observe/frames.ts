// Where an error comes from, without its message, which may quote content.
const MAX_FRAMES = 8;

export function stackFrames(error: unknown): string | undefined {
  if (!(error instanceof Error) || typeof error.stack !== "string") return undefined;
  const lines = error.stack.split("\n").map((line) => line.trim());
  return lines
    .filter((line) => line.startsWith("at "))
    .slice(0, MAX_FRAMES)
    .join(" | ");
}
