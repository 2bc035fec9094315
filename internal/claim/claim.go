// Package claim has the text and the JSON form of a claim.
package claim

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// Claim is the content of a claim: see redlock.Claim.
type Claim struct {
	Names []string
	Token string
	Fence int64
	TTL   time.Duration
}

// prefix identifies the version of the text form.
const prefix = "redlock1."

// text is the content of the text form, in JSON. Names are any bytes, which a JSON string cannot
// represent.
type text struct {
	Names [][]byte      `json:"n"`
	Token []byte        `json:"t"`
	Fence int64         `json:"f,omitempty"`
	TTL   time.Duration `json:"d"`
}

// Text returns the text form, without spaces.
func (c Claim) Text() ([]byte, error) {
	t := text{Token: []byte(c.Token), Fence: c.Fence, TTL: c.TTL}
	for _, n := range c.Names {
		t.Names = append(t.Names, []byte(n))
	}
	b, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	return append([]byte(prefix), base64.RawURLEncoding.EncodeToString(b)...), nil
}

// errDamaged is the error of a form that cannot be parsed. It shows nothing of the form, which
// contains a token.
var errDamaged = errors.New("damaged claim")

// ParseText parses the text form.
func ParseText(form []byte) (Claim, error) {
	b, ok := strings.CutPrefix(string(form), prefix)
	if !ok {
		return Claim{}, fmt.Errorf("a claim begins with %q", prefix)
	}
	raw, err := base64.RawURLEncoding.DecodeString(b)
	if err != nil {
		return Claim{}, errDamaged
	}
	var t text
	if err := json.Unmarshal(raw, &t); err != nil {
		return Claim{}, errDamaged
	}
	c := Claim{Token: string(t.Token), Fence: t.Fence, TTL: t.TTL}
	for _, n := range t.Names {
		c.Names = append(c.Names, string(n))
	}
	return c, nil
}

// object is the JSON form.
type object struct {
	Names  []string `json:"names"`
	Token  string   `json:"token"`
	Fence  int64    `json:"fence,omitempty"`
	Millis *int64   `json:"ttl_ms"`
	// OldTTL is what versions before the first release wrote, in nanoseconds.
	OldTTL json.RawMessage `json:"ttl,omitempty"`
}

// JSON returns the JSON form. It returns an error if a name is not valid UTF-8, which JSON would
// change, or if the TTL is not in whole milliseconds.
func (c Claim) JSON() ([]byte, error) {
	for _, s := range append([]string{c.Token}, c.Names...) {
		if !utf8.ValidString(s) {
			return nil, errors.New("name is not valid UTF-8, which JSON cannot represent: use the claim's text form")
		}
	}
	if c.TTL < 0 || c.TTL%time.Millisecond != 0 {
		return nil, fmt.Errorf("claim's TTL of %v is not a number of whole milliseconds", c.TTL)
	}
	ms := c.TTL.Milliseconds()
	return json.Marshal(object{Names: c.Names, Token: c.Token, Fence: c.Fence, Millis: &ms})
}

// ParseJSON parses the JSON form.
func ParseJSON(form []byte) (Claim, error) {
	var j object
	if err := json.Unmarshal(form, &j); err != nil {
		return Claim{}, errDamaged
	}
	switch {
	case j.OldTTL != nil:
		return Claim{}, errors.New("claim with the field ttl, of an older version: the field is ttl_ms, in milliseconds")
	case j.Millis == nil:
		return Claim{}, errors.New("claim without ttl_ms")
	case *j.Millis < 0 || *j.Millis > math.MaxInt64/int64(time.Millisecond):
		return Claim{}, errors.New("claim's ttl_ms is out of range")
	}
	return Claim{Names: j.Names, Token: j.Token, Fence: j.Fence, TTL: time.Duration(*j.Millis) * time.Millisecond}, nil
}
