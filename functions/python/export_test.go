package python

// For tests of what is not exported.
var (
	ReadFrame  = readFrame
	WriteFrame = writeFrame
	CountGPUs  = visible
)

// MaxFrame bounds a frame.
const MaxFrame = maxFrame

// FromWorker is what a worker may say.
type FromWorker = fromWorker
