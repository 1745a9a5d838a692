package wire

import (
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
)

// TensorRef returns a plane's reference as a message.
func TensorRef(ref plane.Ref) *messages.TensorRef {
	return &messages.TensorRef{Node: ref.Node, Key: ref.Key, Bytes: uint64(ref.Bytes), Digest: ref.Digest}
}

// PlaneRef returns the reference that a message carries.
func PlaneRef(ref *messages.TensorRef) plane.Ref {
	return plane.Ref{Node: ref.GetNode(), Key: ref.GetKey(), Bytes: int64(ref.GetBytes()), Digest: ref.GetDigest()}
}
