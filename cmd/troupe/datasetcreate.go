package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/api/client"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store/dataset"
)

// newData says where the samples of a new data set are, and how to read them.
type newData struct {
	name, from                               string
	trainData, trainLabels, testData, labels string // KubeML's four files
	how                                      dataset.Options
}

// newDatasetCreateCommand returns the verb that makes a data set.
func newDatasetCreateCommand(s *session) *cobra.Command {
	flags, data, output := newPlaceFlags(s.Getenv), &newData{}, "text"
	cmd := &cobra.Command{
		Use:   "create --name NAME --from PATH | create --name NAME --traindata F --trainlabels F [--testdata F --testlabels F]",
		Short: "Create a data set, all of it or nothing",
		Long: `Create a data set of a file or folder (--from: .csv, .csv.gz, .npz, a folder of
.npy files, or the four files of MNIST), or of two or four .npy files. Where
there is no test part, --test-share of the samples are kept for testing.

All of it is checked before it is there: what cannot be used is refused with
the reason, and leaves nothing behind. A data set that has the name is not
replaced (exit 4), unless it is the same.`,
		Example: `  troupe dataset create --name mnist --from /usr/share/datasets/fashion-mnist
  troupe dataset create --name blobs --from blobs.csv --label class
  troupe dataset create --name mine --traindata x.npy --trainlabels y.npy --testdata xt.npy --testlabels yt.npy`,
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitConflict, exitUnavailable, exitCorrupt, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			parts, err := data.parts()
			if err != nil {
				return err
			}
			return s.at(flags, func(ctx context.Context, b backend) error {
				d, err := data.create(ctx, b, parts)
				if err != nil {
					return err
				}
				s.warnAll(d.Warnings)
				return s.printDataset(d, output, "created")
			})
		},
	}
	set := cmd.Flags()
	set.SortFlags = false
	registerDatasetName(cmd, &data.name)
	set.StringVar(&data.from, "from", "", "file or folder with the samples")
	set.StringVar(&data.trainData, "traindata", "", ".npy file of samples to train on")
	set.StringVar(&data.trainLabels, "trainlabels", "", ".npy file of their labels")
	set.StringVar(&data.testData, "testdata", "", ".npy file of samples to test with")
	set.StringVar(&data.labels, "testlabels", "", ".npy file of their labels")
	set.StringVar(&data.how.Label, "label", "", "column of a CSV file that is y (default: the last)")
	set.Var(share(&data.how.TestShare, "0.2"), "test-share", "part to test with, of what has no test part")
	flags.register(set)
	registerOutput(set, &output)
	return cmd
}

// parts returns the files of a data set that has them one by one, nil for one
// from a path, or says what is missing.
func (d *newData) parts() ([]client.Part, error) {
	invalid := func(format string, args ...any) ([]client.Part, error) {
		return nil, fault.New("dataset.flags", fault.Invalid, format, args...)
	}
	if err := checkDatasetName(d.name); err != nil {
		return nil, err
	}
	var parts []client.Part
	missing := map[string]bool{}
	for _, f := range []struct{ flag, field, path string }{
		{"--traindata", "x-train", d.trainData},
		{"--trainlabels", "y-train", d.trainLabels},
		{"--testdata", "x-test", d.testData},
		{"--testlabels", "y-test", d.labels},
	} {
		if f.path == "" {
			missing[f.flag] = true
			continue
		}
		if ending := strings.ToLower(f.path); !strings.HasSuffix(ending, ".npy") {
			return invalid("%s %s: give a .npy file; other formats go with --from", f.flag, f.path)
		}
		parts = append(parts, client.Part{Field: f.field, Path: f.path})
	}
	switch {
	case d.from == "" && len(parts) == 0:
		return invalid("no samples given: say where they are with --from PATH, or with --traindata and --trainlabels")
	case d.from != "" && len(parts) > 0:
		return invalid("--from says where all samples are: leave out --traindata, --trainlabels, --testdata and --testlabels")
	case d.from != "":
		return nil, nil
	case missing["--traindata"] || missing["--trainlabels"]:
		return invalid("give both --traindata and --trainlabels")
	case missing["--testdata"] != missing["--testlabels"]:
		return invalid("give both --testdata and --testlabels, or neither: then --test-share of the samples are kept for testing")
	}
	return parts, nil
}

func (d *newData) create(ctx context.Context, b backend, parts []client.Part) (api.Dataset, error) {
	if parts == nil {
		return b.CreateDataset(ctx, d.name, d.from, d.how)
	}
	return b.UploadDataset(ctx, d.name, parts, d.how)
}
