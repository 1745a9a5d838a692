package main

import (
	"github.com/spf13/pflag"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/internal/fault"
)

// configure gives the flags that were not typed what the environment says, else
// what the file says. The flag itself refuses what makes no sense.
func (s *session) configure(set *pflag.FlagSet) error {
	if !takesSettings(set) {
		return nil // a broken file does not stop help and version
	}
	settings, err := config.Load(s.Getenv)
	if err != nil {
		return err
	}
	for _, k := range config.Keys() {
		f, said := set.Lookup(k.Name), config.Setting{}
		if f != nil && !f.Changed {
			said, _ = settings.Get(k.Name)
		}
		if said.Value == "" || said.Env && k.Name == "python" { // which package python reads, and names in its errors
			continue
		}
		if err := f.Value.Set(said.Value); err != nil {
			return fault.New("troupe.configure", fault.Invalid, "%s: %s %q: %w", said.From, k.Name, said.Value, err)
		}
	}
	return nil
}

func takesSettings(set *pflag.FlagSet) bool {
	for _, k := range config.Keys() {
		if set.Lookup(k.Name) != nil {
			return true
		}
	}
	return false
}
