package api

// EncodeEvent is how the stream has an event.
var EncodeEvent = encodeEvent
