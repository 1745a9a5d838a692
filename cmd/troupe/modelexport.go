package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store/model"
)

// exportFlags say what to export, and how, and where to.
type exportFlags struct {
	*modelFlags
	format string // "": as the file's name ends
	file   string // "-": standard output
	force  bool
}

// newModelExportCommand returns the verb that writes a model to a file.
func newModelExportCommand(s *session) *cobra.Command {
	flags := &exportFlags{modelFlags: newModelFlags(s.Getenv)}
	cmd := &cobra.Command{
		Use:   "export -n ID -o FILE",
		Short: "Write a model to a file",
		Long: `Write a model to a file: as safetensors, which it is in the store, or as an npz
archive that numpy.load reads. numpy has no bfloat16: such tensors become
float32, without loss, and a note says so.

The file appears when it is whole and checked, or not at all. One that is there
is not replaced, which is a conflict, unless --force is given. -o - writes to
standard output, where only the exit code says whether all of it is right.`,
		Example: `  troupe model export -n 01jcx5zq8w3f -o lenet.safetensors
  troupe model export -n 01jcx5zq8w3f --format npz -o lenet.npz --force`,
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitConflict, exitUnavailable, exitCorrupt),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			return s.at(&flags.placeFlags, func(ctx context.Context, b backend) error {
				return withModel(ctx, b, flags.id, func(_ api.Model, file model.File) error { return s.export(ctx, file, flags) })
			})
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	flags.registerID(s, cmd)
	set.StringVarP(&flags.file, "output", "o", "", "file to write; -: standard output")
	set.Var(oneOf(&flags.format, model.Formats()), "format", "format of the file (default: npz if its name ends so, else safetensors)")
	set.BoolVar(&flags.force, "force", false, "replace a file that is there")
	flags.register(set)
	return cmd
}

// check refuses a command line that says too little.
func (f *exportFlags) check() error {
	if err := f.modelFlags.check(); err != nil {
		return err
	}
	if f.file == "" {
		return fault.New("model.flags", fault.Invalid, "no file given: say where to write the model with -o FILE")
	}
	if f.format == "" {
		f.format = "safetensors"
		if strings.HasSuffix(strings.ToLower(f.file), ".npz") {
			f.format = "npz"
		}
	}
	return nil
}

func (s *session) export(ctx context.Context, file model.File, flags *exportFlags) error {
	var notes []string
	write := func(w io.Writer) (err error) {
		notes, err = file.Export(ctx, flags.format, w)
		return err
	}
	var err error
	if flags.file == "-" {
		err = s.toOutput(write)
	} else {
		err = writeWhole(flags.file, flags.force, write)
	}
	if err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintf(s.screen, "troupe: note: %s\n", note)
	}
	if flags.file != "-" {
		fmt.Fprintf(s.screen, "model %s exported to %s (%s)\n", file.ID, flags.file, flags.format)
	}
	return nil
}

// toOutput writes bytes to standard output, which must lead somewhere else than
// to a screen.
func (s *session) toOutput(write func(io.Writer) error) error {
	if out, ok := s.Out.(*output); ok && s.IsTerminal(out.under) {
		return fault.New("model.export", fault.Invalid, "a terminal cannot show a model: give -o FILE, or lead the output to a file or program")
	}
	return write(s.Out)
}
