package main

import (
	"encoding/json"
	"errors"
)

// dashboard has the parts of a Grafana dashboard that are drawn.
type dashboard struct {
	Title      string
	Panels     []panel
	Templating struct {
		List []struct{ Name, Query string }
	}
}

type panel struct {
	Title   string
	Type    string
	GridPos struct{ X, Y, W, H int }
	Targets []struct{ Expr, LegendFormat string }

	FieldConfig struct {
		Defaults struct{ Unit string }
	}
}

func parse(text []byte) (*dashboard, error) {
	d := &dashboard{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, err
	}
	if len(d.Panels) == 0 {
		return nil, errors.New("the dashboard has no panels")
	}
	for _, p := range d.Panels {
		if p.Type != "timeseries" {
			return nil, errors.New("cannot draw a panel of type " + p.Type)
		}
	}
	return d, nil
}

// variable returns the query of a variable.
func (d *dashboard) variable(name string) string {
	for _, v := range d.Templating.List {
		if v.Name == name {
			return v.Query
		}
	}
	return ""
}
