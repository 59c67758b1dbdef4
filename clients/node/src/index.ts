/** delayq's client for Node: messages that are delivered at their due time, kept in Redis. */

export * from "./client.js";
export { decode, encode, EnvelopeError, type Backoff, type Envelope, type State } from "./envelope.js";
export { InvalidMessage, MessageId } from "./ids.js";
export type { Message } from "./message.js";
