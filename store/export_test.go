package store

// Suspect has a store take in an error of its folder.
func Suspect(f *File, err error) { _ = f.unavailable("test", "k", err) }
