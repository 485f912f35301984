// How long clients may take for what they are sent. One that takes nothing for as long is cut off, and may come back for all of it.

const STUCK_MS = 30_000;

/** Resolves when it is taken, or the client was cut off. */
export async function takenInTime(taken: Promise<unknown>, cut: () => void): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(() => {
      cut();
      resolve();
    }, STUCK_MS);
  });
  try {
    await Promise.race([taken, late]);
  } finally {
    clearTimeout(timer);
  }
}
