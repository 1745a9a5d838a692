package api

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/store/dataset"
)

const (
	mainFile = "main.py"
	maxParts = 1000 // of a form
)

func (s *Server) functions(w *response, r *http.Request) error {
	list, err := s.company.Functions(r.Context())
	if err == nil {
		w.json(http.StatusOK, neverNull(list))
	}
	return err
}

func (s *Server) function(w *response, r *http.Request) error {
	name := r.PathValue("name")
	if err := jobjson.CheckFunction(name); err != nil {
		return err
	}
	f, err := s.company.Function(r.Context(), name)
	if err == nil {
		w.json(http.StatusOK, f)
	}
	return err
}

func (s *Server) putFunction(w *response, r *http.Request) error {
	name := r.PathValue("name")
	if err := jobjson.CheckFunction(name); err != nil {
		return err
	}
	replace, err := s.mayReplace(r, name)
	if err != nil {
		return err
	}
	return s.receive(r, s.config.MaxFunction, func(dir string) error {
		from, err := s.receiveFunction(dir, r)
		if err != nil {
			return err
		}
		f, err := s.company.CreateFunction(r.Context(), name, from, replace)
		if err == nil {
			w.json(http.StatusOK, f)
		}
		return err
	})
}

// mayReplace reads what the client says about a function that is there.
func (s *Server) mayReplace(r *http.Request, name string) (bool, error) {
	for _, header := range []string{"If-None-Match", "If-Match"} {
		if value := r.Header.Get(header); value != "" && value != "*" {
			return false, jobjson.Invalid("%s: only * is understood", header)
		}
	}
	if r.Header.Get("If-Match") != "" {
		if _, err := s.company.Function(r.Context(), name); err != nil {
			return false, err
		}
	}
	return r.Header.Get("If-None-Match") == "", nil
}

// receiveFunction writes code below dir, or reads where endpoints are.
func (s *Server) receiveFunction(dir string, r *http.Request) (from FunctionSource, err error) {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil && r.Header.Get("Content-Type") != "" {
		return from, jobjson.Refuse(http.StatusUnsupportedMediaType, "Content-Type: %w", err)
	}
	switch media {
	case "application/json":
		from.URLs, err = receiveURLs(r)
		return from, err
	case "application/x-tar", "application/gzip", "application/x-gzip", "application/x-gtar":
		from.Path, from.Called = filepath.Join(dir, "code"), "the archive"
		return from, unpack(from.Path, r.Body, s.config.MaxFunction)
	case "", "text/x-python", "text/plain", "application/x-python", "application/octet-stream":
	default: // application/x-www-form-urlencoded is what curl --data says
		return from, jobjson.Refuse(http.StatusUnsupportedMediaType, "Content-Type %s: send a file of Python as text/x-python, a folder as application/x-tar or application/gzip, URLs as application/json", jobjson.Shown(media))
	}
	file := r.URL.Query().Get("file")
	if file == "" {
		file = mainFile
	}
	if jobjson.CheckName("file", file) != nil || !strings.HasSuffix(file, ".py") {
		return from, jobjson.Invalid("file %q: give the name of a file of Python, such as net.py, without folders", jobjson.Shown(file))
	}
	from.Path, from.Called = filepath.Join(dir, file), fmt.Sprintf("file %q", file)
	n, err := save(from.Path, r.Body, s.config.MaxFunction)
	if err == nil && n == 0 {
		err = jobjson.Invalid("there is no code: send a file of Python, or a tar archive of a folder with main.py")
	}
	return from, err
}

// receiveURLs reads {"url": …} or {"urls": […]}.
func receiveURLs(r *http.Request) ([]string, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, jobjson.BodyError(err)
	}
	var sent FunctionURLs
	if err := jobjson.Decode("function", body, &sent, "url", "urls"); err != nil {
		return nil, err
	}
	if sent.URL != "" {
		sent.URLs = append(sent.URLs, sent.URL)
	}
	if len(sent.URLs) == 0 {
		return nil, jobjson.Invalid(`there is no URL: send {"url": "http://…"}, or {"urls": […]}`)
	}
	return sent.URLs, nil
}

func (s *Server) deleteFunction(w *response, r *http.Request) error {
	name := r.PathValue("name")
	if err := jobjson.CheckFunction(name); err != nil {
		return err
	}
	return deleted(w, s.company.DeleteFunction(r.Context(), name))
}

func (s *Server) datasets(w *response, r *http.Request) error {
	list, err := s.company.Datasets(r.Context())
	if err == nil {
		w.json(http.StatusOK, neverNull(list))
	}
	return err
}

func (s *Server) dataset(w *response, r *http.Request) error {
	name := r.PathValue("name")
	if err := jobjson.CheckDataset(name); err != nil {
		return err
	}
	d, err := s.company.Dataset(r.Context(), name)
	if err == nil {
		w.json(http.StatusOK, d)
	}
	return err
}

func (s *Server) createDataset(w *response, r *http.Request) error {
	name := r.PathValue("name")
	if err := jobjson.CheckDataset(name); err != nil {
		return err
	}
	how, err := readingOf(r)
	if err != nil {
		return err
	}
	media, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" || parameters["boundary"] == "" {
		return jobjson.Refuse(http.StatusUnsupportedMediaType, "send multipart/form-data with the files x-train, y-train, x-test, y-test, or one named file")
	}
	return s.receive(r, s.config.MaxDataset, func(dir string) error {
		path, err := receiveFiles(dir, newForm(r.Body, parameters["boundary"]), s.config.MaxDataset)
		if err != nil {
			return err
		}
		how.Called = fmt.Sprintf("data set %q", name)
		if path != dir {
			how.Called += fmt.Sprintf(", file %q", filepath.Base(path))
		}
		d, err := s.company.CreateDataset(r.Context(), name, path, how)
		if fault.KindOf(err) == fault.Corrupt { // what was sent is broken, not what we have
			err = jobjson.Invalid("%w", err)
		}
		if err == nil {
			w.warn(d.Warnings)
			w.json(http.StatusOK, d)
		}
		return err
	})
}

// readingOf says how a file is to be read.
func readingOf(r *http.Request) (how dataset.Options, err error) {
	query := r.URL.Query()
	how.Label = query.Get("label")
	if share := query.Get("test_share"); share != "" {
		how.TestShare, err = strconv.ParseFloat(share, 64)
		if err != nil || !(how.TestShare > 0 && how.TestShare < 1) {
			return how, jobjson.Invalid("test_share %q: give a number between 0 and 1, such as 0.2", jobjson.Shown(share))
		}
	}
	return how, nil
}

// receiveFiles writes the files of a form below dir. It returns the path of the
// only one, or of a folder with all of them.
func receiveFiles(dir string, form *form, limit int64) (string, error) {
	var files []string
	sent := map[string]bool{} // by the names of parts
	for n := 0; ; n++ {
		part, err := form.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", jobjson.BodyError(err)
		}
		if n == maxParts {
			return "", jobjson.Invalid("the form has more than %d parts: send the files of one data set", maxParts)
		}
		name, err := fileOf(part)
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, name)
		wrote, err := save(path, part, limit)
		if err != nil {
			return "", err
		}
		limit -= wrote
		files, sent[part.FormName()] = append(files, path), true
	}
	if len(files) == 0 {
		return "", jobjson.Invalid("there are no files: send x-train, y-train, x-test, y-test, or one named file")
	}
	if err := checkParts(sent); err != nil {
		return "", err
	}
	if len(files) == 1 {
		return files[0], nil
	}
	return dir, nil
}

// checkParts refuses arrays without those that belong to them.
func checkParts(sent map[string]bool) error {
	for _, one := range []struct{ part, needs string }{
		{"x-train", "y-train"}, {"y-train", "x-train"}, {"x-test", "y-test"}, {"y-test", "x-test"}, {"x-test", "x-train"},
	} {
		if sent[one.part] && !sent[one.needs] {
			return jobjson.Invalid("%s comes without %s: send that too", one.part, one.needs)
		}
	}
	return nil
}

// fileOf says how a part of a form is called on disk.
func fileOf(part *multipart.Part) (string, error) {
	file := filepath.Base(filepath.ToSlash(part.FileName()))
	switch field := part.FormName(); field {
	case "x-train", "y-train", "x-test", "y-test":
		if pickled(file) {
			return "", fault.New("api.dataset", fault.Invalid, "%s is the pickle %q: those run code when they are read; save the array with numpy.save", field, jobjson.Shown(file))
		}
		return field + ".npy", nil // so errors about it name the part
	case "file":
		if jobjson.CheckName("file", file) != nil {
			return "", jobjson.Invalid("file %q: give it a name that begins with a letter or digit", jobjson.Shown(file))
		}
		return file, nil
	default:
		return "", jobjson.Unknown("form", field, []string{"x-train", "y-train", "x-test", "y-test", "file"})
	}
}

func pickled(file string) bool {
	lower := strings.ToLower(file)
	return strings.HasSuffix(lower, ".pkl") || strings.HasSuffix(lower, ".pickle")
}

func (s *Server) deleteDataset(w *response, r *http.Request) error {
	name := r.PathValue("name")
	if err := jobjson.CheckDataset(name); err != nil {
		return err
	}
	return deleted(w, s.company.DeleteDataset(r.Context(), name))
}

func (s *Server) models(w *response, r *http.Request) error {
	list, err := s.company.Models(r.Context())
	if err == nil {
		w.json(http.StatusOK, neverNull(list))
	}
	return err
}

func (s *Server) model(w *response, r *http.Request) error {
	id := r.PathValue("id")
	if err := jobjson.CheckModel(id); err != nil {
		return err
	}
	file, size, err := s.company.OpenModel(r.Context(), id)
	if err != nil {
		return err
	}
	defer file.Close()
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": id + ".safetensors"}))
	header.Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(http.StatusOK)
	if n, err := io.Copy(w, file); err != nil || n != size {
		return fault.New("api.model", fault.Unavailable, "model %s: %d of %d bytes were sent: %w", id, n, size, err) // cuts the answer off
	}
	return nil
}

func (s *Server) deleteModel(w *response, r *http.Request) error {
	id := r.PathValue("id")
	if err := jobjson.CheckModel(id); err != nil {
		return err
	}
	return deleted(w, s.company.DeleteModel(r.Context(), id))
}
