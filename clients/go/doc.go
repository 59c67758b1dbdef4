// Package delayq is delayq's client for Go: messages that are delivered at their due time, kept in Redis.
//
// It is thin: the Lua scripts do the work in Redis, this package calls them through go-redis. Delivery at the due time
// needs a running delayq-timer.
package delayq
