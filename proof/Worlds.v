(* Small worlds for the runs that Coq evaluates, and what is seen in a run. *)
From Coq Require Import ZArith List Bool Arith String.
From Redlock Require Import Model Exclusion Clocks.
Import ListNotations.
Open Scope Z_scope.

Definition mistake_eq (a b : mistake) : {a = b} + {a <> b}. decide equality. Defined.
Definition assumption_eq (a b : assumption) : {a = b} + {a <> b}. decide equality. Defined.

(* The lock as it is, and with a mistake. *)
Definition correct (m : mistake) := false.
Definition with_mistake (m m' : mistake) := if mistake_eq m m' then true else false.

(* Which assumptions events may break: those of a list, and the two that matter to fences of nodes that forget alone. *)
Definition only (l : list assumption) (a : assumption) := existsb (fun b => if assumption_eq a b then true else false) l.
Definition all_but (l : list assumption) := only (AdmitNothing :: NumbersPaced :: l).
Definition all_hold := all_but [].

(* Token 400 is of a lock on the names 0 and 1, and token 500 of one on 1. All others are of locks on 0. *)
Definition two_names tok := if tok =? 400 then [0; 1]%nat else if tok =? 500 then [1%nat] else [0%nat].

(* Three nodes, no guard, the longest TTL is a second, and all clocks show real time. *)
Definition three := [0; 1; 2]%nat.
Definition plain m := World (fun _ => three) (fun _ => false) two_names 1000 (fun _ => true) allowance 250000 (clocks []) (clocks []) m.
Definition guarded_world m := World (fun _ => three) (fun _ => true) two_names 1000 (fun _ => true) allowance 250000 (clocks []) (clocks []) m.
Definition with_clocks cs ns w := World (members w) (guarded w) (names w) (max_ttl w) (lengths w) (drift w) (clamp w) ns cs (wrong w).
Definition with_members f w := World f (guarded w) (names w) (max_ttl w) (lengths w) (drift w) (clamp w) (node_clock w) (client_clock w) (wrong w).
Definition with_guard f w := World (members w) f (names w) (max_ttl w) (lengths w) (drift w) (clamp w) (node_clock w) (client_clock w) (wrong w).

(* Who holds which token at an instant after a run. None: the run is not possible. *)
Definition valid_at w s t := map (fun h => (h_client h, h_token h)) (filter (fun h => valid w s t (h_client h) (h_token h)) (handles s)).
Definition holders w tolerated tr t := match run w tolerated init tr with Some s => Some (valid_at w s t) | None => None end.

(* The most locks that are valid at once, after any event of a run. Between two events there are no more, because clients' clocks are monotonic. *)
Fixpoint most_at_once w tolerated s tr := match tr with
  | [] => Some 0%nat
  | e :: tr => if permitted w tolerated (at_time (fst e) s) (snd e) then
      match step w s e with Some s' => option_map (Nat.max (List.length (valid_at w s' (fst e)))) (most_at_once w tolerated s' tr) | None => None end else None
  end.

(* A node keeps the key of lock a on name x at instant t. How many of client c's nodes do after a run. *)
Definition keeps w s t a x n := match key s n x with Some (k, e) => (k =? a) && (ms w n t <? e) | None => false end.
Definition keepers w tolerated tr t c a x := match run w tolerated init tr with
  | Some s => Some (List.length (filter (keeps w s t a x) (members w c))) | None => None end.

(* A run in which client c uses lock a, client d uses lock b, and c uses a again. c does not detach a in between. *)
Definition used_between w tolerated p t1 q1 t2 q2 t3 c a d b :=
  match run w tolerated init (p ++ (t1, Use c a) :: q1 ++ (t2, Use d b) :: q2 ++ [(t3, Use c a)]) with
  | Some _ => forallb (fun e => stays c a (snd e)) (q1 ++ q2) | None => false end.

(* Client c detaches lock a after the run p. Whether this claim has not ended and its validity is not over at instant t, after the run q, and who
   holds which token then. *)
Definition claim_and_holders w tolerated p t1 c a q t := match run w tolerated init p with
  | Some s1 => match handle_of c a (handles s1), run w tolerated s1 ((t1, Detach c a) :: q) with
      | Some h, Some s => Some (negb (is_in a (ended s)) && (client_clock w c t <=? h_until h), valid_at w s t) | _, _ => None end
  | None => None end.
Definition fences_of w tolerated tr := match run w tolerated init tr with Some s => Some (fences s) | None => None end.
(* The nodes that confirmed a fence, each with whether it has voted in a round. *)
Definition confirmers w tolerated tr r := match run w tolerated init tr with
  | Some s => Some (map (fun f => match f with (n, _, _) => (n, voted s r 0 n) end) (confirms s)) | None => None end.
Definition key_of w tolerated tr n x := match run w tolerated init tr with Some s => Some (key s n x) | None => None end.

(* The first event of a run that is not possible, for those who write runs. *)
Fixpoint stuck w tolerated s i tr := match tr with
  | [] => None
  | e :: tr => if permitted w tolerated (at_time (fst e) s) (snd e) then match step w s e with Some s' => stuck w tolerated s' (S i) tr | None => Some (i, "impossible"%string) end
               else Some (i, "not permitted"%string)
  end.

(* A node executes the command of a round, and has dropped keys that expire now. *)
Definition exec n r := Exec n r None false.
(* ... and counts a fence. The client's time is h. *)
Definition exec_at h n r := Exec n r (Some h) false.
