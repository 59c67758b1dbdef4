/** Node client of delayq: messages in Redis, delivered at a due time. */

export type { Time } from "./arguments.js";
export { Client, type Change, type ClientOptions, type PutOptions, type ReserveOptions } from "./client.js";
export { connect } from "./connections.js";
export { Deliveries, type DeliveriesOptions } from "./deliveries.js";
export { Delivery, type Receipt, type ReleaseOptions } from "./delivery.js";
export { GroupBusy, type Group, type GroupCancelled, type GroupShifted } from "./group.js";
export type { Message } from "./message.js";
export { InvalidMessage } from "./names.js";
export { ClosedError, Incomplete, ScriptError, TimeoutError, Unconfirmed, type Outcome, type State, type Words } from "./outcome.js";
export type { Policy, PolicyPatch } from "./policy.js";
export type { Backoff } from "./protocol.js";
export type { RedisNode } from "./several.js";
export { series } from "./series.js";
export type { Stored } from "./stored.js";
export type { Numbers, PausedGroup, Range, Topic } from "./topic.js";
export { between, jitterMs } from "./windows.js";
export { Bury, Worker, type Handler, type WorkerOptions } from "./worker.js";
