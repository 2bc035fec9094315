(* The model: what nodes, clients and the network can do, as one executable step function.

   A time is a whole number of nanoseconds of real time, which no node and no client can read. Each node and each
   client has a clock, which is a function of real time. A run is a list of events with their times.
   [step] says whether an event is possible in a state, and which state follows.

   There are no messages in the state. A client that begins a round has sent its command to every
   node. A node may execute it at any later time, any number of times, or never. So commands are
   lost, late, doubled and reordered in every way. An answer is recorded when the node executes the
   command. The client may count it at any later time, or never. *)
From Coq Require Import ZArith List Bool Arith.
Import ListNotations.
Open Scope Z_scope.

Definition MS := 1000000. (* a millisecond *)

(* Well-known mistakes. [wrong w m] says whether the lock of world [w] makes mistake [m]. The theorems
   are about worlds without any. Mistakes.v shows what each one breaks. *)
Inductive mistake :=
| ValidityFromAnswer   (* the validity counts from the decision, and not from before the first send *)
| QuorumOfAnswers      (* a quorum of the nodes that answered *)
| HalfIsEnough         (* half of an even number of nodes is a quorum *)
| ExtensionCreates     (* an extension creates a missing key *)
| ExtensionShortens    (* an extension sets the key's expiry also if it is later already *)
| ReleaseUncompared    (* a release deletes the key whatever token it holds *)
| UndoWhileValid       (* a command that was late is undone while its lock is valid *)
| LateRevives          (* an extension counts after its lock has ended and was undone *)
| ShortQuarantine      (* the guard waits for half of the longest TTL *)
| CountInQuarantine    (* an extension counts from a node that is in quarantine *)
| RepairInQuarantine   (* a repair does not read the marker *)
| FenceOfOneNode       (* the fence is a number that one node counted, without a confirmation *)
| ConfirmUncompared    (* a confirmation does not compare the token *)
| ConfirmAbove.        (* a confirmation counts also where the node's own number is above the fence *)

Record world := World {
  members : nat -> list nat;      (* the nodes that a client is configured with *)
  guarded : nat -> bool;          (* the client uses the restart guard *)
  names : Z -> list nat;          (* the names of the lock that an attempt with this token asks for *)
  max_ttl : Z;                    (* in ms *)
  lengths : Z -> bool;            (* the times in ms for which locks are confirmed: TTLs, and what Resume found left *)
  drift : Z -> Z;                 (* the allowance for a TTL in ms, in ns *)
  clamp : Z;                      (* how far a node believes a client's time, in µs *)
  node_clock : nat -> Z -> Z;     (* of a node, in ns, by real time *)
  client_clock : nat -> Z -> Z;
  wrong : mistake -> bool }.

(* A round is one command to all nodes. r_start is the real time at which the client read its clock,
   before it sent anything. *)
Inductive kind := Acquiring | Extending | Asking.
Record round := Round {
  r_id : nat; r_kind : kind; r_client : nat; r_token : Z; r_start : Z; r_ttl : Z (* ms *) }.

(* A node's answer. It is a vote if the node granted and may vote. a_left is how long the node keeps
   the keys from its execution on, in ms of its clock. *)
Record answer := Answer { a_node : nat; a_round : nat; a_vote : bool; a_left : Z }.

(* A client holds the lock until an instant of its own clock. *)
Record handle := Handle { h_client : nat; h_token : Z; h_until : Z }.

(* Unmarked: the marker is missing, or of another run or history. *)
Inductive marker := Unmarked | Quarantined (till : Z) | Fit.

Record state := State {
  now : Z;
  key : nat -> nat -> option (Z * Z);     (* of a node and a name: token, and expiry in ms of the node's clock *)
  mark : nat -> marker;
  counter : nat -> nat -> Z;              (* of a node and a name *)
  rounds : list round;
  answers : list answer;
  numbers : list (nat * Z * Z);           (* node, token, the number that the node counted at its grant *)
  confirms : list (nat * Z * Z);          (* node, token, the fence that the node confirmed *)
  ended : list Z;                         (* tokens whose attempt or hold is over *)
  claims : list Z;                        (* tokens that Detach returned as a claim *)
  handles : list handle;
  fences : list (Z * Z);                  (* token, and the fence with which it was acquired *)
  undone : list (nat * nat * Z) }.        (* node, name and token of each release or undo that was executed *)

Definition init := State 0 (fun _ _ => None) (fun _ => Unmarked) (fun _ _ => 0) [] [] [] [] [] [] [] [] [].

Inductive event :=
(* A client *)
| Acquire (c r : nat) (tok ttl : Z)             (* begins an attempt *)
| Extend (c r : nat) (tok ttl : Z)              (* begins an extension of a lock that it holds *)
| Ask (c r : nat) (tok : Z)                     (* begins a Check or a Resume *)
| Decide (r : nat) (worth until fence : Z)       (* counts a majority, of answers to Ask those that are worth [worth] ms *)
| Use (c : nat) (tok : Z)                       (* sees its lock valid *)
| Detach (c : nat) (tok : Z)                    (* gives its handle up for a claim *)
| End (tok : Z)                                 (* gives the attempt or the lock up *)
(* A node executes a script. [edge]: it still finds a key in the millisecond in which that expires. *)
| Exec (n r : nat) (hint : option Z) (edge : bool)   (* the command of a round; with the client's time if it counts fences *)
| Confirm (n r : nat) (fence : Z) (edge : bool)      (* raises the counters to the fence of round r's lock, also as part of an extension *)
| Repair (n r : nat) (edge : bool)              (* creates missing keys of the round's token *)
| Delete (n x : nat) (tok : Z)                  (* a release or an undo, key by key *)
| Shorten (n x : nat) (tok ttl : Z)             (* a release that leaves the key for a minimum hold *)
| Verify (n : nat)                              (* the script that alone decides about a marker *)
| Admit (n : nat)                               (* an operator skips the wait of a new deployment *)
(* Faults *)
| Vanish (n x : nat)                            (* a key vanishes: early, or because the node drops what has expired *)
| Restart (n : nat) (m : marker) (keys : nat -> option (Z * Z)) (counters : nat -> Z)  (* any data *)
(* No fault *)
| Reboot (n : nat).                             (* the server starts again with all its data: its marker is of another run *)

Definition is_in (x : Z) l := existsb (Z.eqb x) l.
Definition has (x : nat) l := existsb (Nat.eqb x) l.
Definition update {A} (f : nat -> A) n (v : A) := fun m => if Nat.eqb m n then v else f m.
Definition find_round r (l : list round) := find (fun R => Nat.eqb (r_id R) r) l.
Definition is_handle c tok h := Nat.eqb (h_client h) c && (h_token h =? tok).
Definition handle_of c tok (l : list handle) := find (is_handle c tok) l.
Definition taken tok (l : list handle) := existsb (fun h => h_token h =? tok) l.
Definition without c tok (l : list handle) := filter (fun h => negb (is_handle c tok h)) l.

(* Each of these changes one field. *)
Definition at_time t s := State t (key s) (mark s) (counter s) (rounds s) (answers s) (numbers s) (confirms s) (ended s) (claims s) (handles s) (fences s) (undone s).
Definition set_key n f s := State (now s) (update (key s) n f) (mark s) (counter s) (rounds s) (answers s) (numbers s) (confirms s) (ended s) (claims s) (handles s) (fences s) (undone s).
Definition set_mark n m s := State (now s) (key s) (update (mark s) n m) (counter s) (rounds s) (answers s) (numbers s) (confirms s) (ended s) (claims s) (handles s) (fences s) (undone s).
Definition set_counter n f s := State (now s) (key s) (mark s) (update (counter s) n f) (rounds s) (answers s) (numbers s) (confirms s) (ended s) (claims s) (handles s) (fences s) (undone s).
Definition add_round R s := State (now s) (key s) (mark s) (counter s) (R :: rounds s) (answers s) (numbers s) (confirms s) (ended s) (claims s) (handles s) (fences s) (undone s).
Definition add_answer a s := State (now s) (key s) (mark s) (counter s) (rounds s) (a :: answers s) (numbers s) (confirms s) (ended s) (claims s) (handles s) (fences s) (undone s).
Definition add_number x s := State (now s) (key s) (mark s) (counter s) (rounds s) (answers s) (x :: numbers s) (confirms s) (ended s) (claims s) (handles s) (fences s) (undone s).
Definition add_confirm x s := State (now s) (key s) (mark s) (counter s) (rounds s) (answers s) (numbers s) (x :: confirms s) (ended s) (claims s) (handles s) (fences s) (undone s).
Definition add_end tok s := State (now s) (key s) (mark s) (counter s) (rounds s) (answers s) (numbers s) (confirms s) (tok :: ended s) (claims s) (handles s) (fences s) (undone s).
Definition add_claim tok s := State (now s) (key s) (mark s) (counter s) (rounds s) (answers s) (numbers s) (confirms s) (ended s) (tok :: claims s) (handles s) (fences s) (undone s).
Definition add_undone x s := State (now s) (key s) (mark s) (counter s) (rounds s) (answers s) (numbers s) (confirms s) (ended s) (claims s) (handles s) (fences s) (x :: undone s).
Definition revive tok s := State (now s) (key s) (mark s) (counter s) (rounds s) (answers s) (numbers s) (confirms s) (filter (fun k => negb (k =? tok)) (ended s)) (claims s) (handles s) (fences s) (undone s).
Definition set_handles l s := State (now s) (key s) (mark s) (counter s) (rounds s) (answers s) (numbers s) (confirms s) (ended s) (claims s) l (fences s) (undone s).
Definition add_fence x s := State (now s) (key s) (mark s) (counter s) (rounds s) (answers s) (numbers s) (confirms s) (ended s) (claims s) (handles s) (x :: fences s) (undone s).

Section Model.
Variable w : world.

(* A node counts the lives of keys in whole milliseconds, and fences in microseconds. *)
Definition ms n t := node_clock w n t / MS.
Definition us n t := node_clock w n t / 1000.

(* ---- What a node does ---- *)

Definition alive s n edge x :=
  match key s n x with
  | Some (k, e) => if (ms n (now s) <? e) || (edge && (ms n (now s) =? e)) then Some (k, e) else None
  | None => None
  end.
Definition free s n edge x := match alive s n edge x with Some _ => false | None => true end.
Definition mine s n edge tok x := match alive s n edge x with Some (k, _) => k =? tok | None => false end.

(* Every script that creates a key compares the marker, and so does every answer that is a vote. *)
Definition fit s n := match mark s n with Fit => true | _ => false end.
Definition may_create c s n := negb (guarded w c) || fit s n.
Definition may_vote c s n := may_create c s n || wrong w CountInQuarantine.

(* The number of a grant is above the counters of all names, and at least the client's time as far as
   the node's clock confirms it. *)
Definition clamped s n hint := Z.max (us n (now s) - clamp w) (Z.min hint (us n (now s) + clamp w)).
Definition highest s n tok := fold_right (fun x v => Z.max (counter s n x) v) 0 (names w tok).
Definition number s n tok hint := Z.max (highest s n tok + 1) (clamped s n hint).

Definition count n tok hint s :=
  match hint with
  | None => s
  | Some h =>
      let v := number s n tok h in
      add_number (n, tok, v) (set_counter n (fun x => if has x (names w tok) then v else counter s n x) s)
  end.

Definition exec_acquire n R hint edge s :=
  if forallb (free s n edge) (names w (r_token R)) && may_create (r_client R) s n then
    let e := ms n (now s) + r_ttl R in
    count n (r_token R) hint
      (add_answer (Answer n (r_id R) true (r_ttl R))
        (set_key n (fun x => if has x (names w (r_token R)) then Some (r_token R, e) else key s n x) s))
  else add_answer (Answer n (r_id R) false 0) s.

Definition lengthened s n R x :=
  let e := ms n (now s) + r_ttl R in
  match key s n x with
  | Some (k, old) => Some (r_token R, if wrong w ExtensionShortens then e else Z.max old e)
  | None => Some (r_token R, e)
  end.

Definition exec_extend n R edge s :=
  if forallb (fun x => mine s n edge (r_token R) x || (wrong w ExtensionCreates && free s n edge x)) (names w (r_token R)) then
    add_answer (Answer n (r_id R) (may_vote (r_client R) s n) (r_ttl R))
      (set_key n (fun x => if has x (names w (r_token R)) then lengthened s n R x else key s n x) s)
  else add_answer (Answer n (r_id R) false 0) s.

(* How long the node still keeps all keys, and never more than the longest TTL. *)
Definition left_of s n x := match key s n x with Some (_, e) => e - ms n (now s) | None => 0 end.
Definition left_all s n tok := fold_right (fun x v => Z.min (left_of s n x) v) (max_ttl w) (names w tok).

Definition exec_ask n R edge s :=
  if forallb (mine s n edge (r_token R)) (names w (r_token R)) then
    add_answer (Answer n (r_id R) (may_vote (r_client R) s n) (left_all s n (r_token R))) s
  else add_answer (Answer n (r_id R) false 0) s.

(* A client's validity of [worth] ms ends at this instant of its clock. *)
Definition limit R worth := client_clock w (r_client R) (r_start R) + worth * MS - drift w worth.

(* A confirmation raises the counters in any case. It counts where the marker is right, and no extension has begun. *)
Definition extended s tok := existsb (fun R => (r_token R =? tok) && match r_kind R with Extending => true | _ => false end) (rounds s).
Definition confirm n R fence edge s :=
  let tok := r_token R in
  if forallb (mine s n edge tok) (names w tok) || wrong w ConfirmUncompared then
    let s' := set_counter n (fun x => if has x (names w tok) then Z.max (counter s n x) fence else counter s n x) s in
    if may_create (r_client R) s n && negb (extended s tok) then add_confirm (n, tok, fence) s' else s'
  else s.

Definition repair n R edge s :=
  if match r_kind R with Extending => true | _ => false end
     && forallb (fun x => mine s n edge (r_token R) x || free s n edge x) (names w (r_token R))
     && guarded w (r_client R) && (fit s n || wrong w RepairInQuarantine) then
    set_key n (fun x => if has x (names w (r_token R)) && free s n edge x
                        then Some (r_token R, ms n (now s) + r_ttl R) else key s n x) s
  else s.

Definition delete n x tok s :=
  match key s n x with
  | Some (k, _) => if (k =? tok) || wrong w ReleaseUncompared then set_key n (update (key s n) x None) s else s
  | None => s
  end.

Definition shorten n x tok ttl s :=
  match key s n x with
  | Some (k, e) => if k =? tok then set_key n (update (key s n) x (Some (k, Z.min e (ms n (now s) + ttl)))) s else s
  | None => s
  end.

Definition quarantine := if wrong w ShortQuarantine then max_ttl w / 2 else max_ttl w.
Definition verify n s :=
  match mark s n with
  | Unmarked => set_mark n (Quarantined (ms n (now s) + quarantine)) s
  | Quarantined q =>
      if q <=? ms n (now s) then set_mark n Fit s
      else if ms n (now s) + quarantine <? q then set_mark n (Quarantined (ms n (now s) + quarantine)) s   (* the clock was set back *)
      else s
  | Fit => s
  end.

(* ---- What a client does ---- *)

(* A client's majority of the nodes that it is configured with. *)
Definition majority (l : list nat) (votes : nat -> bool) :=
  let have := (2 * length (filter votes l))%nat in
  Nat.ltb (length l) have || (wrong w HalfIsEnough && Nat.eqb (length l) have).
Definition answered s r n := existsb (fun a => Nat.eqb (a_node a) n && Nat.eqb (a_round a) r) (answers s).
Definition voted s r worth n :=
  existsb (fun a => Nat.eqb (a_node a) n && Nat.eqb (a_round a) r && a_vote a && (worth <=? a_left a)) (answers s).
Definition electorate s c r := if wrong w QuorumOfAnswers then filter (answered s r) (members w c) else members w c.

(* A node counted to the fence, or it counted less and has confirmed the fence. *)
Definition stands s tok fence n :=
  existsb (fun g => match g with (m, k, v) =>
    Nat.eqb m n && (k =? tok) &&
    ((v =? fence) || ((v <? fence) || wrong w ConfirmAbove) && existsb (fun f => match f with (m, k, v) =>
       Nat.eqb m n && (k =? tok) && (v =? fence) end) (confirms s)) end) (numbers s).
Definition one_counted s tok fence := existsb (fun g => match g with (_, k, v) => (k =? tok) && (v =? fence) end) (numbers s).
Definition fence_stands s c tok fence :=
  majority (members w c) (stands s tok fence) || wrong w FenceOfOneNode && one_counted s tok fence.

Definition valid s t c tok :=
  match handle_of c tok (handles s) with
  | Some h => negb (is_in tok (ended s)) && (client_clock w c t <=? h_until h)
  | None => false
  end.

(* An acquisition or an extension is worth its TTL. Of the answers to a question the client takes the time that a majority of nodes has left. *)
Definition worth_of R worth := match r_kind R with Asking => worth | _ => r_ttl R end.

Definition begin_round R s :=
  match find_round (r_id R) (rounds s) with Some _ => None | None => Some (add_round R s) end.

Definition put c tok until s := set_handles (Handle c tok until :: without c tok (handles s)) s.

Definition decide r worth until fence s :=
  match find_round r (rounds s) with
  | None => None
  | Some R =>
      let c := r_client R in let tok := r_token R in
      let l := worth_of R worth in
      let from := if wrong w ValidityFromAnswer then client_clock w c (now s) + l * MS - drift w l else limit R l in
      let checks := match r_kind R, handle_of c tok (handles s) with Asking, Some _ => true | _, _ => false end in   (* a Check only shortens *)
      if majority (electorate s c r) (voted s r l) && (until <=? from) && negb (is_in tok (ended s)) && (lengths w l || checks) then
        match r_kind R, handle_of c tok (handles s) with
        | Acquiring, None =>
            if taken tok (handles s) || is_in tok (claims s) || (until <? client_clock w c (now s)) then None   (* too late *)
            else if fence =? 0 then Some (put c tok until s)
            else if fence_stands s c tok fence then Some (add_fence (tok, fence) (put c tok until s)) else None
        | Acquiring, Some _ => None
        | Extending, Some h =>
            if (client_clock w c (now s) <=? h_until h) || wrong w LateRevives
            then Some (put c tok (Z.max until (h_until h)) s) else None
        | Extending, None => None
        | Asking, Some h => Some (put c tok (Z.min until (h_until h)) s)            (* Check *)
        | Asking, None => if is_in tok (claims s) then Some (put c tok until s) else None   (* Resume *)
        end
      else None
  end.

Definition revived r s := match find_round r (rounds s) with Some R => revive (r_token R) s | None => s end.

Definition happen (s : state) (e : event) : option state :=
  match e with
  | Acquire c r tok ttl =>
      if existsb (fun R => r_token R =? tok) (rounds s) then None   (* 130 random bits *)
      else begin_round (Round r Acquiring c tok (now s) ttl) s
  | Extend c r tok ttl => if valid s (now s) c tok then begin_round (Round r Extending c tok (now s) ttl) s else None
  | Ask c r tok => begin_round (Round r Asking c tok (now s) (max_ttl w)) s
  | Decide r worth until fence => decide r worth until fence (if wrong w LateRevives then revived r s else s)
  | Use c tok => if valid s (now s) c tok then Some s else None
  | Detach c tok =>
      if valid s (now s) c tok then Some (add_claim tok (set_handles (without c tok (handles s)) s)) else None
  | End tok => Some (add_end tok s)
  | Exec n r hint edge =>
      match find_round r (rounds s) with
      | None => None
      | Some R => Some (match r_kind R with
          | Acquiring => exec_acquire n R hint edge s
          | Extending => exec_extend n R edge s
          | Asking => exec_ask n R edge s end)
      end
  | Confirm n r fence edge =>
      match find_round r (rounds s) with
      | Some R => match r_kind R with
          | Acquiring => if one_counted s (r_token R) fence then Some (confirm n R fence edge s) else None
          | _ => None end
      | None => None
      end
  | Repair n r edge => match find_round r (rounds s) with Some R => Some (repair n R edge s) | None => None end
  | Delete n x tok => if is_in tok (ended s) || wrong w UndoWhileValid then Some (add_undone (n, x, tok) (delete n x tok s)) else None
  | Shorten n x tok ttl => if is_in tok (ended s) then Some (shorten n x tok ttl s) else None
  | Verify n => Some (verify n s)
  | Admit n => match mark s n with Unmarked => Some (set_mark n Fit s) | _ => None end
  | Vanish n x => Some (set_key n (update (key s n) x None) s)
  | Restart n m keys counters => Some (set_counter n counters (set_mark n m (set_key n keys s)))
  | Reboot n => Some (set_mark n Unmarked s)
  end.

Definition step (s : state) (te : Z * event) : option state :=
  let (t, e) := te in if t <? now s then None else happen (at_time t s) e.

(* ---- The assumptions about single events ---- *)

Inductive assumption :=
| KeysKept        (* no key vanishes before it expires *)
| NodesRemember   (* a node keeps what it acknowledged *)
| MarkerHonest    (* older data does not come back under a marker that is right *)
| TtlBounded      (* no TTL is longer than the longest one *)
| AdmitQuiet      (* an operator admits a node only while no client is running *)
| AdmitNothing    (* an operator admits no node: for fences *)
| NumbersPaced    (* no number is ahead of all nodes' clocks by more than the clamp: for fences of nodes that forget *)
| ClaimOnce       (* a claim is resumed by one client at a time *)
| ExecutedOnce    (* a node executes an acquire at most once *)
| InOrder.        (* a node executes what was sent for a token in order: nothing that creates a key after an undo *)

Definition resumes_again s r :=
  match find_round r (rounds s) with
  | Some R => match r_kind R, handle_of (r_client R) (r_token R) (handles s) with
              | Asking, None => taken (r_token R) (handles s) | _, _ => false end
  | None => false
  end.
Definition executed_before s n r :=
  match find_round r (rounds s) with
  | Some R => match r_kind R with
      | Acquiring => existsb (fun g => match g with (m, k, _) => Nat.eqb m n && (k =? r_token R) end) (numbers s)
      | _ => false end
  | None => false
  end.
Definition paced s n r hint :=
  match find_round r (rounds s), hint with
  | Some R, Some h => match r_kind R with
      | Acquiring => existsb (fun m => number s n (r_token R) h <=? us m (now s) + clamp w) (members w (r_client R))
      | _ => true end
  | _, _ => true
  end.
Definition quiet s := forallb (fun R => is_in (r_token R) (ended s)) (rounds s).

Definition overtaken s n r :=
  match find_round r (rounds s) with
  | Some R => existsb (fun u => match u with (m, x, k) => Nat.eqb m n && has x (names w (r_token R)) && (k =? r_token R) end) (undone s)
  | None => false
  end.
Definition acquires s r := match find_round r (rounds s) with Some R => match r_kind R with Acquiring => true | _ => false end | None => false end.

(* The assumptions that an event breaks. *)
Definition when (b : bool) (a : assumption) := if b then [a] else [].
Definition breaks s e :=
  match e with
  | Acquire _ _ _ ttl | Extend _ _ _ ttl => when (max_ttl w <? ttl) TtlBounded
  | Decide r _ _ _ => when (resumes_again s r) ClaimOnce
  | Exec n r hint _ => when (executed_before s n r) ExecutedOnce ++ when (negb (paced s n r hint)) NumbersPaced
                       ++ when (acquires s r && overtaken s n r) InOrder
  | Repair n r _ => when (overtaken s n r) InOrder
  | Admit _ => AdmitNothing :: when (negb (quiet s)) AdmitQuiet
  | Vanish n x => when (negb (free s n false x)) KeysKept
  | Restart _ Unmarked _ _ => [NodesRemember]
  | Restart _ _ _ _ => [MarkerHonest]
  | _ => []
  end.

(* A run. [tolerated a]: events that break assumption [a] may happen in it. *)
Variable tolerated : assumption -> bool.
Definition permitted s e := forallb tolerated (breaks s e).
Fixpoint run s tr : option state :=
  match tr with
  | [] => Some s
  | e :: tr => if permitted (at_time (fst e) s) (snd e) then match step s e with Some s' => run s' tr | None => None end else None
  end.

(* ---- The assumptions about clocks ---- *)

(* A client's clock is monotonic. *)
Definition monotonic := forall c t0 t1, t0 <= t1 -> client_clock w c t0 <= client_clock w c t1.
(* Of each time for which locks are confirmed: while a client measures it less its allowance, a node measures less than it. *)
Definition within_drift := forall c n ttl t0 t1, lengths w ttl = true -> t0 <= t1 ->
  client_clock w c t1 - client_clock w c t0 <= ttl * MS - drift w ttl -> ms n t1 < ms n t0 + ttl.

End Model.
