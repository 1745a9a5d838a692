// Package tensor holds models as bytes: element types, state dicts, the
// safetensors and npy formats, the check that an answer may enter a merge, and
// the merge itself.
//
// It is pure: it reads through io.ReaderAt and writes to io.Writer, and knows
// neither files nor nodes. Models are never held whole unless the caller asks
// for a StateDict (Read): Check, Average and ConvertNpy work in fixed windows.
// All functions are safe for concurrent use as long as the readers given to
// them are; values are not guarded.
//
// Errors are fault errors. Corrupt: the bytes break the format or end early.
// Invalid: the caller's argument, or a well-formed file of a kind that is not
// supported. Rejected: an answer that may not enter a merge. Unavailable: the
// reader or writer below failed.
package tensor
