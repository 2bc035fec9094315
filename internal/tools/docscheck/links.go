package main

import (
	"net/url"
	"os"
	"path"
	"strings"
)

// checkLinks checks that links within the repository have a target, including headings, and that
// other links have a valid form.
func checkLinks(pages []*page) (int, []finding) {
	read := map[string]*page{}
	for _, p := range pages {
		read[p.path] = p
	}
	count, found := 0, []finding(nil)
	for _, p := range pages {
		for _, l := range p.links {
			count++
			if wrong := brokenLink(p, l.text, read); wrong != "" {
				found = append(found, finding{p.path, l.line, wrong})
			}
		}
	}
	return count, found
}

// brokenLink returns what is wrong with a link, or "".
func brokenLink(p *page, link string, pages map[string]*page) string {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return "no link: " + err.Error()
	case u.Scheme == "http" || u.Scheme == "https":
		if u.Host == "" || strings.ContainsAny(u.Host, " _") {
			return "no host in " + link
		}
		return ""
	case u.Scheme == "mailto":
		return ""
	case u.Scheme != "" || u.Host != "":
		return "a link of a kind that nobody follows: " + link
	}
	target := p.path
	if u.Path != "" {
		target = path.Join(path.Dir(p.path), u.Path)
	}
	if strings.HasPrefix(u.Path, "/") || strings.HasPrefix(target, "..") {
		return link + " leads out of the repository"
	}
	if _, err := os.Stat(target); u.Path != "" && err != nil {
		return "there is no " + target
	}
	if u.Fragment == "" {
		return ""
	}
	to := pages[target]
	if to == nil {
		return link + " leads to a heading of a page that is not checked"
	}
	if !to.anchors[u.Fragment] {
		return "there is no heading #" + u.Fragment + " in " + target
	}
	return ""
}
