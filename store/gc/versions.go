package gc

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/store/function"
	"github.com/troupe-ml/troupe/store/model"
)

const (
	modelsPrefix    = "models/"
	functionsPrefix = "functions/"
	datasetsPrefix  = "datasets/"
	manifestName    = "manifest.json"

	maxCard = 1 << 20 // bytes
)

// models notes what models use: all of them, the visible or not.
func (f *finder) models(ctx context.Context) error {
	objects, err := f.list(ctx, modelsPrefix)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if path.Ext(o.Key) != ".json" {
			continue
		}
		var card model.Card
		err := f.read(ctx, o.Key, &card)
		switch fault.KindOf(err) {
		case fault.NotFound: // deleted meanwhile
		case fault.Corrupt:
			f.unsure = true
			f.warn(err)
		default:
			if err != nil {
				return err
			}
			f.used[card.FunctionVersion], f.used[card.DatasetDigest] = true, true
		}
	}
	return nil
}

func (f *finder) read(ctx context.Context, key string, into any) error {
	b, err := store.Read(ctx, f.deps.Store, key, maxCard)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fault.New("gc.read", fault.Corrupt, "%s is damaged: %w", key, err)
	}
	return nil
}

func (f *finder) functions(ctx context.Context) error {
	catalog := function.New(f.deps.Store)
	return f.versions(ctx, functionsPrefix, Function, func(name string) (string, error) {
		info, err := catalog.Show(ctx, name)
		return info.Version, err
	})
}

func (f *finder) datasets(ctx context.Context) error {
	catalog := dataset.New(f.deps.Store)
	return f.versions(ctx, datasetsPrefix, Dataset, func(name string) (string, error) {
		info, err := catalog.Latest(ctx, name)
		return info.Digest, err
	})
}

// versions looks at what lies under prefix/<name>/<version>/. latest says what
// a name means now; NotFound: it has no version with a manifest.
func (f *finder) versions(ctx context.Context, prefix string, why Reason, latest func(name string) (string, error)) error {
	objects, err := f.list(ctx, prefix)
	if err != nil {
		return err
	}
	current := map[string]string{}
	folders, in := byFolder(objects, 3)
	for _, folder := range folders {
		name, version := path.Base(path.Dir(path.Clean(folder))), path.Base(folder)
		files := in[folder]
		i := slices.IndexFunc(files, func(o store.Object) bool { return o.Key == folder+manifestName })
		if i < 0 {
			if f.isOlder(Grace, files...) {
				f.add(Unfinished, folder, files...)
			}
			continue
		}
		if f.unsure || f.used[version] || !f.isOlder(max(f.opts.Older, Grace), files[i]) {
			continue
		}
		if _, ok := current[name]; !ok {
			v, err := latest(name)
			switch kind := fault.KindOf(err); {
			case err != nil && kind != fault.Corrupt && kind != fault.Invalid && kind != fault.NotFound:
				return err
			case err != nil:
				f.warn(err)
				v = ""
			}
			current[name] = v
		}
		if current[name] == "" || current[name] == version {
			continue
		}
		f.add(why, folder, files[i]) // first
		f.add(why, folder, slices.Delete(files, i, i+1)...)
	}
	return nil
}

// isManifest reports whether an item says that the rest of its group is there.
func isManifest(i Item) bool { return i.Key == i.group+manifestName && strings.HasSuffix(i.group, "/") }
