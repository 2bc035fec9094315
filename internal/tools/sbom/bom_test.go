package main

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestABillNamesEveryModuleOfTheBuild(t *testing.T) {
	got := describe(&debug.BuildInfo{
		GoVersion: "go1.26.8", Path: "example.com/x/cmd/redlock",
		Main: debug.Module{Path: "example.com/x", Version: "v0.1.0"},
		Deps: []*debug.Module{
			{Path: "example.com/a", Version: "v1.2.3", Sum: "h1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="},
			{Path: "example.com/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/c", Version: "v2.0.0+incompatible"}},
			{Path: "example.com/d", Version: "v0.1.0", Replace: &debug.Module{Path: "../..", Version: "(devel)"}},
		},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}},
	}, "00ff")

	assert.Equal(t, "redlock", got.Metadata.Component.Name)
	assert.Equal(t, "v0.1.0", got.Metadata.Component.Version)
	assert.Equal(t, []hash{{"SHA-256", "00ff"}}, got.Metadata.Component.Hashes)
	assert.Contains(t, got.Metadata.Component.Properties, property{"go:build:vcs.revision", "abc"})
	require.Len(t, got.Components, 4)
	assert.Equal(t, "pkg:golang/std@go1.26.8?type=module", got.Components[0].PURL)
	assert.Equal(t, "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", got.Components[1].Hashes[0].Content)
	assert.Equal(t, "pkg:golang/example.com/c@v2.0.0%2Bincompatible?type=module", got.Components[2].PURL)
	assert.Equal(t, "pkg:golang/example.com/d@v0.1.0?type=module", got.Components[3].PURL)
	assert.Len(t, got.Dependencies[0].DependsOn, 4)
}

func TestTheBillOfABinaryIsTheSameEachTime(t *testing.T) {
	self, err := os.Executable() // a test is a binary too
	require.NoError(t, err)
	var first, second bytes.Buffer
	require.NoError(t, run(self, &first))
	require.NoError(t, run(self, &second))
	assert.Equal(t, first.String(), second.String())
	assert.True(t, json.Valid(first.Bytes()))
	require.Error(t, run("bom_test.go", &first), "a file that is no binary")
}
