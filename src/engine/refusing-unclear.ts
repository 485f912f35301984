// Times and audiences that can't be meant, for programs: a model reads what is wrong as an answer, a program as an error.
import { EngineError } from "../core/errors.js";
import { UnclearTime } from "../schedule/when.js";

/** What `work` gives. Throws `bad_request` in place of `UnclearTime`. */
export async function refusingUnclear<T>(work: () => Promise<T> | T): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof UnclearTime) throw new EngineError("bad_request", error.message);
    throw error;
  }
}
