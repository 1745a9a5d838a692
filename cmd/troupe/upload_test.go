package main

import (
	"bytes"
	"context"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/api/apitest"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/store/function"
	"github.com/troupe-ml/troupe/tensor"
)

// importing is a fake company that imports what it is sent into a store.
type importing struct {
	*apitest.Company
	catalogs *catalogs
}

func (i importing) CreateFunction(ctx context.Context, name string, from api.FunctionSource, replace bool) (api.Function, error) {
	return i.catalogs.CreateFunction(ctx, name, from, replace)
}

func (i importing) CreateDataset(ctx context.Context, name, path string, how dataset.Options) (api.Dataset, error) {
	return i.catalogs.CreateDataset(ctx, name, path, how)
}

// newImporting starts a server that imports, and returns its URL and the folder
// that uploads go to.
func newImporting(t *testing.T) (url, spool string) {
	t.Helper()
	bucket := store.NewMem()
	c := config.DefaultAPI()
	c.Listen, spool = "127.0.0.1:0", filepath.Join(t.TempDir(), "spool")
	company := importing{apitest.New(), &catalogs{functions: function.New(bucket), datasets: dataset.New(bucket)}}
	server, err := api.Start(c, api.Deps{Company: company, Log: zap.NewNop(), Version: "test", Spool: spool})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close(context.Background())) })
	return server.URL(), spool
}

func npy(t *testing.T, values []byte, shape ...int64) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, tensor.WriteNpyHeader(&b, tensor.NpyUint8, shape))
	return b.String() + string(values)
}

// part is a part of a form: a field, the name of its file, and that file.
type part struct{ field, file, text string }

func upload(t *testing.T, url string, parts ...part) (status int, says string) {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, p := range parts {
		w, err := form.CreateFormFile(p.field, p.file)
		require.NoError(t, err)
		_, err = io.WriteString(w, p.text)
		require.NoError(t, err)
	}
	require.NoError(t, form.Close())
	response, err := http.Post(url, form.FormDataContentType(), &body)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

// What is said about a bad upload names its parts as the client knows them, and
// no folder of the server.
func TestBadUploadsAreNamedAsTheClientKnowsThem(t *testing.T) {
	url, spool := newImporting(t)
	x, y := npy(t, []byte{1, 2, 3, 4, 5, 6}, 3, 2), npy(t, []byte{0, 1, 0}, 3)
	for name, c := range map[string]struct {
		parts []part
		says  string
	}{
		"no array":         {[]part{{"x-train", "a.npy", "junk"}, {"y-train", "b.npy", y}}, `data set \"mine\": x-train.npy: `},
		"cut off":          {[]part{{"x-train", "a.npy", x}, {"y-train", "b.npy", y[:len(y)-1]}}, `data set \"mine\": y-train.npy: `},
		"nothing":          {[]part{{"x-train", "a.npy", x}, {"y-train", "b.npy", ""}}, `data set \"mine\": y-train.npy: `},
		"lengths differ":   {[]part{{"x-train", "a.npy", x}, {"y-train", "b.npy", npy(t, []byte{1}, 1)}}, `data set \"mine\": x_train has 3 samples, y_train has 1 labels`},
		"shapes differ":    {[]part{{"x-train", "a", x}, {"y-train", "b", y}, {"x-test", "c", y}, {"y-test", "d", y}}, `data set \"mine\": samples of x_train`},
		"one bad file":     {[]part{{"file", "table.csv", "a\n"}}, `data set \"mine\", file \"table.csv\": `},
		"a file of no use": {[]part{{"file", "table.txt", "a"}}, `data set \"mine\", file \"table.txt\": not a file of a supported format`},
		"files of no use":  {[]part{{"file", "a.txt", "a"}, {"file", "b.txt", "a"}}, `data set \"mine\": no data set in the folder`},
	} {
		t.Run(name, func(t *testing.T) {
			status, says := upload(t, url+"/dataset/mine", c.parts...)
			require.Equal(t, 400, status, says)
			require.Contains(t, says, c.says)
			require.NotContains(t, says, spool)
		})
	}
	for media, body := range map[string]string{"text/x-python": "", "application/x-tar": "junk"} {
		request, err := http.NewRequest(http.MethodPut, url+"/functions/net?file=net.py", strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Content-Type", media)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, 400, response.StatusCode, string(text))
		require.NotContains(t, string(text), spool)
	}
}

// A data set is not replaced by what else is uploaded under its name; the same
// again is no conflict.
func TestADatasetIsNotReplaced(t *testing.T) {
	url, _ := newImporting(t)
	first, other := part{"file", "t.csv", "a,y\n1,0\n2,1\n"}, part{"file", "t.csv", "a,y\n1,0\n3,1\n"}
	status, created := upload(t, url+"/dataset/t", first)
	require.Equal(t, 200, status, created)
	status, again := upload(t, url+"/dataset/t", first)
	require.Equal(t, 200, status, again)
	require.Equal(t, created, again)
	status, says := upload(t, url+"/dataset/t", other)
	require.Equal(t, 409, status)
	require.Contains(t, says, `data set \"t\" is there, with 1 training and 1 test samples, and these are others: delete it first (troupe dataset delete --name t), or choose another name`)
}

// Values that are no numbers are told of when a data set is created, by a server
// and by the store alike; a name that leads elsewhere is refused as such.
func TestADatasetThatIsOddIsToldOf(t *testing.T) {
	url, _ := newImporting(t)
	path := filepath.Join(t.TempDir(), "odd.csv")
	require.NoError(t, os.WriteFile(path, []byte("1,0\nNaN,1\n2,0\n3,1\n4,0\n5,1\n"), 0o600))
	for _, server := range []string{url, "none"} {
		r := newWorld(t).run(succeeded(), "dataset", "create", "--name", "odd", "--from", path, "--server", server)
		require.Equal(t, 0, r.code, r.err)
		require.Contains(t, r.err, "troupe: warning: x has 1 values that are NaN or infinite")
		for _, args := range [][]string{{"function", "show", "--name", ".."}, {"dataset", "delete", "--name", ".."}, {"history", "get", "--id", ".."}} {
			r = newWorld(t).run(succeeded(), append(args, "--server", server)...)
			require.Equal(t, 2, r.code, "%v at %s: %s", args, server, r.err)
			require.Contains(t, r.err, `".."`)
		}
	}
}
