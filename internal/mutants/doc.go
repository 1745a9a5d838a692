// Package mutants shows that tests can fail. Each patch in testdata/mutants
// breaks our code in one way and names the test that must notice:
//
//	# breaks: Check lets NaN through
//	# test: ./tensor TestCheckNamesWhatIsWrong
//	--- a/tensor/check.go
//	+++ b/tensor/check.go
//	@@ ...
//
// The test is a regular expression of `go test -run`, anchored. A patch may
// change Go files that are not tests, but neither add nor remove any. The
// working tree is never touched: the go command reads the patched files through
// an overlay, and finds all other packages in its cache.
package mutants
