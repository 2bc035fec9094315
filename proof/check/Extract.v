(* The checker as OCaml. Numbers of nodes, clients, rounds and names become machine integers, as Coq's library maps them; times stay unbounded. *)
From Coq Require Import Extraction ExtrOcamlBasic ExtrOcamlNatInt.
From Redlock Require Import Model Promises Courses Checker.
Extraction "checker.ml" check judge clocks_suffice assumed assuming world_of init exact limit voted majority worth_of fence_stands valid
  mine find_round handle_of breaks at_time is_in all_good agree spread_of.
