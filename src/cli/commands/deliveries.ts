// `perdure deliveries`: its commands, and how what they take is read.
import type { Command } from "commander";
import { DELIVERY_STATUSES } from "../../core/channel.js";
import type { DeliveryId, ThreadId } from "../../core/ids.js";
import { idArgument } from "../arguments.js";
import { answering, choice, type Flags, place, ROWS, text, whole } from "../command.js";
import type { Open } from "../open.js";

export function addDeliveries(program: Command, open: Open): void {
  const deliveries = program.command("deliveries").description("messages to people: sent, on their way, or in doubt");
  answering(deliveries, "ls", "list messages, newest first")
    .option("--thread <thread>", "those of a thread")
    .option("--status <status>", `one of ${DELIVERY_STATUSES.join(", ")}`)
    .option("--limit <number>", "how many", "50")
    .action(async (flags: Flags) => {
      const thread = text(flags.thread);
      const filter = {
        threadId: thread === null ? null : idArgument<ThreadId>(thread, "a thread"),
        status: choice(flags.status, "--status", DELIVERY_STATUSES),
        limit: whole(flags.limit, "--limit", ROWS) ?? 50,
      };
      const { deliveriesLs } = await import("../deliveries.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) => deliveriesLs(deps, filter, print));
    });
  const resolving = [
    ["resend", "again", "sends a message that is in doubt, failed or parked (once more)"],
    ["mark-sent", "sent", "says of a message that is in doubt that it arrived"],
  ] as const;
  for (const [name, how, about] of resolving) {
    answering(deliveries, `${name} <delivery>`, about).action(async (delivery: string, flags: Flags) => {
      const deliveryId = idArgument<DeliveryId>(delivery, "a delivery");
      const { deliveriesResolve } = await import("../deliveries.js");
      await open.parts(place(flags), { bodies: false }, ({ deps }, print) =>
        deliveriesResolve(deps, { deliveryId, how }, print),
      );
    });
  }
}
