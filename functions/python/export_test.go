package python

// CountGPUs says how many GPUs are to be used.
var CountGPUs = visible
