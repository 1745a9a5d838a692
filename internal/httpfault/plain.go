package httpfault

import (
	"io"
	"net/http"
	"strings"

	"github.com/troupe-ml/troupe/internal/fault"
)

// Fail answers with an error as plain text, so that Failure gives its kind and
// text: between nodes, where no person reads bodies.
func Fail(w http.ResponseWriter, err error) {
	w.Header().Set(Header, fault.KindOf(err).String())
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(StatusOf(err))
	_, _ = io.WriteString(w, err.Error())
}

// Failure reads the answer that Fail gave. The caller closes its body.
func Failure(answer *http.Response) error {
	const most = 4 << 10
	text, err := io.ReadAll(io.LimitReader(answer.Body, most))
	if err != nil || len(text) == 0 {
		text = []byte(answer.Status)
	}
	return fault.New("httpfault.answer", KindOf(answer.StatusCode, answer.Header.Get(Header)), "%s", strings.TrimSpace(string(text)))
}
