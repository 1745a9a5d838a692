package sim

import (
	"context"
	"os"
	"path/filepath"

	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/tensor"
)

// Data is a data set of zeros, in files: fakes read nothing but their sizes.
type Data struct {
	Train, Test int
	files       dataset.Files
}

// NewData writes a data set of zeros into dir.
func NewData(dir string, train, test int) (Data, error) {
	d := Data{Train: train, Test: test}
	for _, f := range []struct {
		path    *string
		name    string
		samples int
	}{
		{&d.files.TrainX, "train-x.npy", train},
		{&d.files.TrainY, "train-y.npy", train},
		{&d.files.TestX, "test-x.npy", test},
		{&d.files.TestY, "test-y.npy", test},
	} {
		*f.path = filepath.Join(dir, f.name)
		if err := writeZeros(*f.path, f.samples); err != nil {
			return d, err
		}
	}
	return d, nil
}

func writeZeros(path string, samples int) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	if err := tensor.WriteNpyHeader(f, tensor.NpyInt8, []int64{int64(samples)}); err != nil {
		return err
	}
	_, err = f.Write(make([]byte, samples))
	return err
}

// Files implements host.Datasets.
func (d Data) Files(context.Context, string, string) (dataset.Files, error) { return d.files, nil }
