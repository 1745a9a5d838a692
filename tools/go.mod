module github.com/troupe-ml/troupe/tools

go 1.26.0

tool google.golang.org/protobuf/cmd/protoc-gen-go

require (
	github.com/bufbuild/protocompile v0.14.1
	google.golang.org/protobuf v1.36.12
)

require golang.org/x/sync v0.8.0 // indirect
