package plane

import (
	"os"
	"sync"
)

// shelfSize bounds the files that are open though nobody reads them.
const shelfSize = 256

// shelf keeps sealed files open from their writing to their removal, as far as
// there is room on it: answers are read soon, and of a small one the opening
// takes longer than the reading. The zero value is ready.
type shelf struct {
	mu    sync.Mutex // guards files, and all of each but File
	files map[string]*shelved
}

// shelved is an open file. It is closed once it is off the shelf and unread.
type shelved struct {
	*os.File
	readers int
	off     bool
}

// put takes over a file, which is closed at once when there is no room.
func (s *shelf) put(key string, file *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.files) >= shelfSize {
		_ = file.Close()
		return
	}
	if s.files == nil {
		s.files = map[string]*shelved{}
	}
	s.files[key] = &shelved{File: file}
}

// take returns the file of a key to read, nil if it is not on the shelf. Whoever
// takes it gives it back, once.
func (s *shelf) take(key string) *shelved {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[key]
	if f != nil {
		f.readers++
	}
	return f
}

func (s *shelf) give(f *shelved) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.readers--
	f.closeUnread()
}

// drop takes files off the shelf.
func (s *shelf) drop(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		if f := s.files[key]; f != nil {
			delete(s.files, key)
			f.off = true
			f.closeUnread()
		}
	}
}

// clear takes all files off the shelf.
func (s *shelf) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		f.off = true
		f.closeUnread()
	}
	clear(s.files)
}

// closeUnread needs the shelf's mu. What is sealed is only read, so that an
// error of Close means nothing.
func (f *shelved) closeUnread() {
	if f.off && f.readers == 0 {
		_ = f.File.Close()
	}
}
