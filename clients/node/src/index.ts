/** delayq's client for Node: messages that are delivered at their due time, kept in Redis. */

export { Client, type Change, type ReleaseOptions, type ReserveOptions } from "./client.js";
export type { Delivery, Receipt } from "./delivery.js";
export type { Backoff, Message } from "./message.js";
export { InvalidMessage } from "./names.js";
export { Incomplete, ScriptError, type Outcome } from "./outcome.js";
