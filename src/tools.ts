// `perdure/tools`: what authors of graphs declare side effects with. It needs none of the engine.
export {
  durableTool,
  type DurableToolOptions,
  type EffectCall,
} from "./effects/durable-tool.js";
export { durableMiddleware } from "./effects/middleware.js";
export { NotSent } from "./effects/not-sent.js";
export { step } from "./effects/step.js";
export { toolsNode } from "./effects/tools-node.js";
export {
  cancelFollowup,
  followupTools,
  listFollowups,
  rescheduleFollowup,
  scheduleFollowup,
} from "./engine/followup-tools.js";
