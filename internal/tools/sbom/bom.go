package main

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
)

// bom is the part of CycloneDX 1.5 that this program uses.
type bom struct {
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Ref        string     `json:"bom-ref"`
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []licence  `json:"licenses,omitempty"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type licence struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// describe returns the bill of materials of a binary with this build information and this SHA-256.
func describe(info *debug.BuildInfo, sum string) bom {
	main := component{
		Type: "application", Name: path.Base(info.Path), Version: info.Main.Version,
		PURL: purl(info.Main.Path, info.Main.Version), Hashes: []hash{{"SHA-256", sum}}, Licenses: make([]licence, 1),
	}
	main.Licenses[0].License.ID = "Apache-2.0"
	main.Ref = main.PURL
	for _, s := range info.Settings {
		main.Properties = append(main.Properties, property{"go:build:" + s.Key, s.Value})
	}
	components := []component{module("std", info.GoVersion, "")}
	for _, m := range info.Deps {
		if m.Replace != nil && m.Replace.Version != "(devel)" { // the library of this repository is replaced by its folder
			m = m.Replace
		}
		components = append(components, module(m.Path, m.Version, m.Sum))
	}
	b := bom{Format: "CycloneDX", SpecVersion: "1.5", Version: 1, Metadata: metadata{main}, Components: components}
	all := dependency{Ref: main.Ref}
	for _, c := range components {
		all.DependsOn = append(all.DependsOn, c.Ref)
	}
	b.Dependencies = []dependency{all} // which module needs which a binary does not say
	return b
}

// module returns the component of a module. sum is the one of go.sum: a SHA-256 of the module's
// files, in base64 after "h1:".
func module(name, version, sum string) component {
	c := component{Type: "library", Name: name, Version: version, PURL: purl(name, version)}
	c.Ref = c.PURL
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(raw) > 0 {
		c.Hashes = []hash{{"SHA-256", hex.EncodeToString(raw)}}
	}
	return c
}

func purl(name, version string) string {
	return "pkg:golang/" + name + "@" + url.QueryEscape(version) + "?type=module"
}
