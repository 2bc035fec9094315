package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// folder has the manifests. The tests of a package run in its folder.
const folder = "../../deploy/kubernetes"

// objects is what one kustomization makes.
type objects []runtime.Object

// decoder refuses unknown and duplicate fields, as an API server does with fieldValidation=Strict.
func decoder(t testing.TB) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	return json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
}

// decode decodes the documents of a text.
func decode(t testing.TB, text []byte) (all objects, err error) {
	t.Helper()
	by, documents := decoder(t), yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
	defer func() { _ = documents.Close() }()
	for {
		document := make([]byte, len(text)+1)
		n, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if strings.Trim(string(document[:n]), "-\n ") == "" {
			continue // behind the last separator
		}
		object, _, err := by.Decode(document[:n], nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document[:n])
		}
		all = append(all, object)
	}
}

// rendered has what render returned.
var rendered = make(map[string]objects)

// render makes the objects of a kustomization, as kubectl apply -k does. Nobody changes them.
func render(t testing.TB, kustomization string) objects {
	t.Helper()
	if all, ok := rendered[kustomization]; ok {
		return all
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
		filepath.Join(folder, kustomization))
	require.NoError(t, err, kustomization)
	text, err := made.AsYaml()
	require.NoError(t, err, kustomization)
	all, err := decode(t, text)
	require.NoError(t, err, kustomization)
	rendered[kustomization] = all
	return all
}

// of returns the objects of a type.
func of[T runtime.Object](all objects) (found []T) {
	for _, o := range all {
		if o, ok := o.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// copied returns objects that a test may change.
func copied(all objects) (copies objects) {
	for _, o := range all {
		copies = append(copies, o.DeepCopyObject())
	}
	return copies
}

// kustomizations returns the folders with a kustomization.
func kustomizations(t testing.TB) (found []string) {
	t.Helper()
	require.NoError(t, fs.WalkDir(os.DirFS(folder), ".", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Base(path) == "kustomization.yaml" {
			found = append(found, filepath.Dir(path))
		}
		return err
	}))
	return found
}

func TestEachKustomizationDecodesStrictly(t *testing.T) {
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, d := range build.Deps {
			if d.Path == "k8s.io/api" {
				t.Log("k8s.io/api", d.Version)
			}
		}
	}
	require.ElementsMatch(t, []string{
		"base/servers", "base/clients", "overlays/tls/servers", "overlays/tls/clients",
		"overlays/guard/servers", "overlays/guard/clients",
	}, kustomizations(t))
	for _, k := range kustomizations(t) {
		require.NotEmpty(t, render(t, k), k)
	}
}

func TestAnUnknownFieldIsAnError(t *testing.T) {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {%s: 2}\n"
	_, err := decode(t, fmt.Appendf(nil, deployment, "replicas"))
	require.NoError(t, err)
	for _, field := range []string{"replica", "Replicas"} {
		_, err = decode(t, fmt.Appendf(nil, deployment, field))
		require.ErrorContains(t, err, "unknown field", field)
	}
}
