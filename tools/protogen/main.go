// Protogen compiles protobuf files with a compiler written in Go and hands
// them to a pinned protoc-gen-go, so that nobody needs protoc to generate code.
//
// Usage, from the root of the repository:
//
//	go -C tools run ./protogen [-root ..] messages/*.proto
//
// Paths are relative to root, which is also where imports are looked up. The
// generated files land beside their sources. A compiler warning (such as an
// unused import) counts as an error. See docs/adr/0004-code-generation.md.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	root := flag.String("root", "..", "directory that holds the sources and their imports")
	flag.Parse()
	if err := generate(context.Background(), *root, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// generate compiles the named files and writes what the plugin makes of them.
func generate(ctx context.Context, root string, names []string) error {
	if len(names) == 0 {
		return errors.New("no .proto file named")
	}
	request, err := compile(ctx, root, names)
	if err != nil {
		return err
	}
	response, err := runPlugin(ctx, request)
	if err != nil {
		return err
	}
	for _, file := range response.GetFile() {
		path := filepath.Join(root, filepath.FromSlash(file.GetName()))
		if old, err := os.ReadFile(path); err == nil && string(old) == file.GetContent() {
			continue // an unchanged file keeps its time
		}
		if err := os.WriteFile(path, []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compile parses and links the named files and reports every problem it finds,
// one a line, before it gives up.
func compile(ctx context.Context, root string, names []string) (*pluginpb.CodeGeneratorRequest, error) {
	var problems int
	complain := func(err reporter.ErrorWithPos) {
		problems++
		fmt.Fprintln(os.Stderr, err)
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
		Reporter:       reporter.NewReporter(func(err reporter.ErrorWithPos) error { complain(err); return nil }, complain),
	}
	files, err := compiler.Compile(ctx, names...)
	if problems > 0 {
		return nil, fmt.Errorf("%d problems", problems)
	}
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		Parameter:      proto.String("paths=source_relative"),
	}
	seen := make(map[string]bool)
	for _, file := range files {
		request.ProtoFile = appendWithImports(request.ProtoFile, seen, file)
	}
	return request, nil
}

// appendWithImports appends a file after all that it imports, each once: the
// order that plugins ask for.
func appendWithImports(to []*descriptorpb.FileDescriptorProto, seen map[string]bool, file protoreflect.FileDescriptor) []*descriptorpb.FileDescriptorProto {
	if seen[file.Path()] {
		return to
	}
	seen[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		to = appendWithImports(to, seen, imports.Get(i).FileDescriptor)
	}
	return append(to, protoutil.ProtoFromFileDescriptor(file))
}

// runPlugin runs the protoc-gen-go that tools/go.mod pins.
func runPlugin(ctx context.Context, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	in, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	plugin := exec.CommandContext(ctx, "go", "tool", "protoc-gen-go")
	plugin.Stdin, plugin.Stderr = bytes.NewReader(in), os.Stderr
	out, err := plugin.Output()
	if err != nil {
		return nil, fmt.Errorf("protoc-gen-go: %w", err)
	}
	response := new(pluginpb.CodeGeneratorResponse)
	if err := proto.Unmarshal(out, response); err != nil {
		return nil, fmt.Errorf("protoc-gen-go answered nonsense: %w", err)
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	slices.SortFunc(response.File, func(a, b *pluginpb.CodeGeneratorResponse_File) int {
		return bytes.Compare([]byte(a.GetName()), []byte(b.GetName()))
	})
	return response, nil
}
