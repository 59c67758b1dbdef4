// Package packed lends the scripts of the client to the packages beside it.
package packed

// Source returns the source of a script by its verb. The client sets it.
var Source func(verb string) (string, error)
