(* What happens without each assumption. The lock makes no mistake here, and every other assumption holds. *)
From Coq Require Import ZArith List Bool Lia.
From Redlock Require Import Model Clocks Worlds Mistakes.
Import ListNotations.
Open Scope Z_scope.

(* ---- Nodes keep what they acknowledged ---- *)

(* A key vanishes: an administrator deletes it. *)
Example keys_kept : holders (plain correct) (all_but [KeysKept]) (first_lock ++ [(3 * MS, Vanish 0 0)] ++ second_lock 4 0 2) (5 * MS) = two.
Proof. vm_compute. reflexivity. Qed.

(* … and a lock that is confirmed again does not show how long another client has held the name. 200 was acquired before 100's extension. The key
   of 100 that vanished was replaced by one on node 2, which executed the acquire late, when a key of 200 had vanished there. *)
Definition confirmed_again := first_lock ++ [(3 * MS, Vanish 1 0)] ++ second_lock 4 1 2 ++ [(5 * MS, Vanish 2 0); (6 * MS, exec 2 1);
  (7 * MS, Extend 0 3 100 1000); (8 * MS, exec 0 3); (8 * MS, exec 2 3); (9 * MS, Decide 3 1000 (995 * MS) 0)].
Example overlap_before_the_last_confirmation : holders (plain correct) (all_but [KeysKept]) (firstn 9 confirmed_again) (5 * MS) = two
  /\ holders (plain correct) (all_but [KeysKept]) confirmed_again (995 * MS) = Some [(0%nat, 100)]. Proof. vm_compute. split; reflexivity. Qed.

(* A node restarts without its keys, and no client uses the guard. *)
Definition forgotten := first_lock ++ [(3 * MS, Restart 0 Unmarked nothing zero)] ++ second_lock 4 0 2.
Example nodes_remember : holders (plain correct) (all_but [NodesRemember]) forgotten (5 * MS) = two.
Proof. vm_compute. reflexivity. Qed.

(* A node that executed a release comes back with older data, in which the key is still there. *)
Definition restored := first_lock ++ [(3 * MS, End 100); (4 * MS, Delete 0 0 100); (5 * MS, Restart 0 Unmarked older zero)].
Example released_key_comes_back : key_of (plain correct) (all_but [NodesRemember]) restored 0%nat 0%nat = Some (Some (100, 9000))
  /\ key_of (plain correct) all_hold (firstn 6 restored) 0%nat 0%nat = Some None. Proof. vm_compute. split; reflexivity. Qed.

(* One client of two does not use the guard: node 1 grants it at once what it forgot. *)
Definition half_guarded := with_guard (fun c => Nat.eqb c 0) (plain correct).
Definition unguarded_client := begun ++ lock_at 1001 0 1 100 0 1 ++ [(1100 * MS, Restart 1 Unmarked nothing zero)] ++ lock_at 1101 1 2 200 1 2.
Example every_client_uses_the_guard : holders half_guarded (all_but [NodesRemember]) unguarded_client (1102 * MS) = two
  /\ holders (guarded_world correct) (all_but [NodesRemember]) unguarded_client (1102 * MS) = impossible.
Proof. vm_compute. split; reflexivity. Qed.

(* Older data comes back under a marker that is right: a snapshot of the machine, or a key that is deleted under the guard. *)
Example marker_honest : holders (guarded_world correct) (all_but [MarkerHonest])
  (begun ++ lock_at 1001 0 1 100 0 1 ++ [(1100 * MS, Restart 1 Fit nothing zero)] ++ lock_at 1101 1 2 200 1 2) (1102 * MS) = two.
Proof. vm_compute. reflexivity. Qed.

(* A TTL is longer than the longest one. *)
Definition long_ttl := begun ++ [(1001 * MS, Acquire 0 1 100 5000); (1002 * MS, exec 0 1); (1002 * MS, exec 1 1); (1003 * MS, Decide 1 5000 (5900 * MS) 0);
  (1100 * MS, Restart 1 Unmarked nothing zero); (1101 * MS, Verify 1); (2101 * MS, Verify 1)] ++ lock_at 2102 1 2 200 1 2.
Example ttl_bounded : holders (guarded_world correct) (all_but [NodesRemember; TtlBounded]) long_ttl (2103 * MS) = two.
Proof. vm_compute. reflexivity. Qed.

(* An operator admits a node while a client holds a lock. *)
Definition admitted := begun ++ lock_at 1001 0 1 100 0 1 ++ [(1100 * MS, Restart 1 Unmarked nothing zero); (1101 * MS, Admit 1)] ++ lock_at 1102 1 2 200 1 2.
Example admit_quiet : holders (guarded_world correct) (all_but [NodesRemember; AdmitQuiet]) admitted (1103 * MS) = two.
Proof. vm_compute. reflexivity. Qed.

(* ---- Clients ---- *)

(* Client 1 is configured with other nodes. *)
Definition other_nodes := with_members (fun c => if Nat.eqb c 0 then [0; 1; 2] else [2; 3; 4])%nat (plain correct).
Example same_list_of_nodes : holders other_nodes all_hold (first_lock ++ second_lock 3 2 3) (4 * MS) = two.
Proof. vm_compute. reflexivity. Qed.

(* Two processes resume copies of one claim. *)
Definition claim_twice := first_lock ++ [(3 * MS, Detach 0 100);
  (4 * MS, Ask 1 2 100); (4 * MS, exec 0 2); (4 * MS, exec 1 2); (5 * MS, Decide 2 990 (970 * MS) 0);
  (6 * MS, Ask 2 3 100); (6 * MS, exec 0 3); (6 * MS, exec 1 3); (7 * MS, Decide 3 990 (970 * MS) 0)].
Example claim_once : holders (plain correct) (all_but [ClaimOnce]) claim_twice (8 * MS) = Some [(2%nat, 100); (1%nat, 100)]
  /\ holders (plain correct) all_hold claim_twice (8 * MS) = impossible.
Proof. vm_compute. split; reflexivity. Qed.

(* ---- Clocks ---- *)

(* Nodes' clocks are 1 % fast and the client's is 1 % slow: each drifts by 1 % only, and they differ by 2 %. *)
Definition fast := Clock 0 101 100.
Definition slow := Clock 0 99 100.
Definition one_percent_each := with_clocks (clocks [slow]) (clocks [fast; fast; fast]) (plain correct).
Definition drifted := [(0, Acquire 0 1 100 1000); (1, exec 0 1); (1, exec 1 1); (2, Decide 1 1000 (988 * MS) 0);
  (991 * MS, Acquire 1 2 200 1000); (992 * MS, exec 0 2); (992 * MS, exec 1 2); (993 * MS, Decide 2 1000 (1500 * MS) 0)].
Example one_percent_each_is_too_much : holders one_percent_each all_hold drifted (994 * MS) = two /\ all_fit [slow] [fast; fast; fast] = false.
Proof. vm_compute. split; reflexivity. Qed.
(* Half a percent each is not. *)
Example half_a_percent_each : all_fit [Clock 0 995 1000] [Clock 0 1005 1000] = true.
Proof. vm_compute. reflexivity. Qed.

(* Two nodes' clocks are set forward by a second. *)
Definition jump t := if t <? 100 * MS then t else t + 1000 * MS.
Definition set_forward := with_clocks (clocks []) (fun n => if Nat.eqb n 2 then fun t => t else jump) (plain correct).
Example node_set_forward : holders set_forward all_hold (first_lock ++ second_lock 101 0 1) (102 * MS) = two.
Proof. vm_compute. reflexivity. Qed.

(* Rates and steps share one allowance, which is 12 ms for a TTL of a second. Here nodes are faster by 0.9 %, and are set forward by 11 ms. Each
   of the two is below the allowance, and together they are above it. *)
Definition faster t := t * 1009 / 1000 + (if t <? 500 * MS then 0 else 11 * MS).
Definition fast_and_set_forward := with_clocks (clocks []) (fun _ => faster) (plain correct).
Example one_allowance_for_both : holders fast_and_set_forward all_hold (first_lock ++ second_lock 985 0 1) (986 * MS) = two
  /\ all_fit [] [Clock 0 1009 1000] = true /\ 11 * MS <? allowance 1000 = true.
Proof. vm_compute. repeat split; reflexivity. Qed.

(* The allowance is that of the time for which a lock was last confirmed. Here all nodes' clocks are set forward by 300 ms. The allowance of 30 s
   is 302 ms, so locks that are confirmed for 30 s each exclude each other. That of a lock that is resumed with a second left is 12 ms. *)
Definition forward_300_ms t := if t <? 29500 * MS then t else t + 300 * MS.
Definition confirmed_for l := World (fun _ => three) (fun _ => false) two_names 30000 l allowance 250000 (fun _ => forward_300_ms) (clocks []) correct.
Definition thirty_seconds := [(0, Acquire 0 1 100 30000); (1 * MS, exec 0 1); (1 * MS, exec 1 1); (2 * MS, Decide 1 30000 (29698 * MS) 0)].
Definition resumed_late := [(29000 * MS, Detach 0 100); (29000 * MS, Ask 0 3 100); (29001 * MS, exec 0 3); (29001 * MS, exec 1 3); (29002 * MS, Decide 3 1000 (29988 * MS) 0)].
Definition after_the_step := [(29750 * MS, Acquire 1 2 200 30000); (29750 * MS, exec 0 2); (29750 * MS, exec 1 2); (29750 * MS, Decide 2 30000 (59000 * MS) 0)].
Theorem thirty_seconds_allow_300_ms : within_drift (confirmed_for (Z.eqb 30000)).
Proof.
  intros c n ttl t0 t1 L Ht E. change (lengths (confirmed_for (Z.eqb 30000)) ttl) with (30000 =? ttl) in L. apply Z.eqb_eq in L. subst ttl. unfold ms, confirmed_for, clocks, forward_300_ms, allowance, read in *.
  cbn [client_clock node_clock drift] in *. replace (nth c [] real) with real in E by (now destruct c). unfold real, MS in *. cbn [off num den] in E.
  rewrite !Z.mul_1_r, !Z.div_1_r in E.
  assert (D : (if t1 <? 29500 * 1000000 then t1 else t1 + 300 * 1000000) <= (if t0 <? 29500 * 1000000 then t0 else t0 + 300 * 1000000) + 29998 * 1000000).
  { destruct (t1 <? _) eqn:A, (t0 <? _) eqn:B; rewrite ?Z.ltb_lt, ?Z.ltb_ge in *; lia. }
  apply (Z.div_le_mono _ _ 1000000) in D; [|lia]. rewrite Z.div_add in D by lia. lia.
Qed.
Example resumed_with_a_second_left : holders (confirmed_for (Z.eqb 30000)) all_hold (thirty_seconds ++ after_the_step) (29751 * MS) = one
  /\ holders (confirmed_for (fun _ => true)) all_hold (thirty_seconds ++ resumed_late ++ after_the_step) (29751 * MS) = two.
Proof. vm_compute. split; reflexivity. Qed.

(* A Check only shortens a validity, so it needs no allowance of its own. A Resume does. *)
Definition asked_late := [(29000 * MS, Ask 0 3 100); (29001 * MS, exec 0 3); (29001 * MS, exec 1 3); (29002 * MS, Decide 3 900 (29600 * MS) 0)].
Example a_check_needs_no_allowance : holders (confirmed_for (Z.eqb 30000)) all_hold (thirty_seconds ++ asked_late) (29600 * MS) = Some [(0%nat, 100)]
  /\ holders (confirmed_for (Z.eqb 30000)) all_hold (thirty_seconds ++ [(29000 * MS, Detach 0 100)] ++ asked_late) (29600 * MS) = impossible.
Proof. vm_compute. split; reflexivity. Qed.

(* Under the guard: a node's clock is set forward during its quarantine, which ends too early. *)
Definition jump_in_quarantine t := if t <? 1200 * MS then t else t + 900 * MS.
Definition short_wait := with_clocks (clocks []) (fun n => if Nat.eqb n 1 then jump_in_quarantine else fun t => t) (guarded_world correct).
Example node_set_forward_in_quarantine : holders short_wait (all_but [NodesRemember]) (begun ++ lock_at 1001 0 1 100 0 1 ++
  [(1100 * MS, Restart 1 Unmarked nothing zero); (1101 * MS, Verify 1); (1202 * MS, Verify 1)] ++ lock_at 1203 1 2 200 1 2) (1204 * MS) = two.
Proof. vm_compute. reflexivity. Qed.

(* The client's clock stops while its machine is suspended. *)
Definition asleep t := if t <? 100 * MS then t else if t <? 5100 * MS then 100 * MS else t - 5000 * MS.
Definition suspended := with_clocks (fun c => if Nat.eqb c 0 then asleep else fun t => t) (clocks []) (plain correct).
Example clock_counts_suspended_time : holders suspended all_hold (first_lock ++ second_lock 5200 0 1) (5201 * MS) = two.
Proof. vm_compute. reflexivity. Qed.

(* All clocks are set forward by an hour, and back. Clients and nodes always agree, but a client's lock is valid again that was over: no monotonic
   clock does that. *)
Definition for_10_ms t := if (10 * MS <=? t) && (t <? 20 * MS) then t + 3600000 * MS else t.
Definition wall_clocks := with_clocks (fun _ => for_10_ms) (fun _ => for_10_ms) (confirmed_for (Z.ltb 0)).
Definition an_hour_ahead := [(12 * MS, Acquire 1 2 200 1000); (12 * MS, exec 0 2); (12 * MS, exec 1 2); (13 * MS, Decide 2 1000 (3601000 * MS) 0)].
Example client_set_back : holders wall_clocks all_hold (first_lock ++ an_hour_ahead) (14 * MS) = one
  /\ holders wall_clocks all_hold (first_lock ++ an_hour_ahead) (30 * MS) = two.
Proof. vm_compute. split; reflexivity. Qed.
Theorem client_set_back_within_drift : within_drift wall_clocks.
Proof.
  intros c n ttl t0 t1 L Ht E. change (lengths wall_clocks ttl) with (0 <? ttl) in L. apply Z.ltb_lt in L. unfold ms, wall_clocks, confirmed_for, with_clocks, allowance in *.
  cbn [client_clock node_clock drift] in *. unfold MS in *. set (a := for_10_ms t0) in *. set (b := for_10_ms t1) in *.
  assert (D : b <= a + (ttl - 1) * 1000000) by lia. apply (Z.div_le_mono _ _ 1000000) in D; [|lia]. rewrite Z.div_add in D by lia. lia.
Qed.

(* ---- Fences ---- *)

(* The counters are lost: the next lock has a smaller fence. *)
Definition lost_counters := [(100 * MS, Acquire 0 1 100 1000); (100 * MS, exec_at 100000 0 1); (100 * MS, exec_at 100000 1 1); (101 * MS, Decide 1 1000 (900 * MS) 100000);
  (102 * MS, Restart 0 Unmarked nothing zero); (102 * MS, Restart 1 Unmarked nothing zero);
  (103 * MS, Acquire 1 2 200 1000); (104 * MS, exec_at 5 0 2); (104 * MS, exec_at 5 1 2); (105 * MS, Decide 2 1000 (900 * MS) 5)].
Example counters_durable : fences_of (plain correct) (all_but [NodesRemember]) lost_counters = Some [(200, 5); (100, 100000)].
Proof. vm_compute. reflexivity. Qed.

(* A node executes an acquire twice, and its key vanishes twice: two locks have the same fence. Rule 1 and one connection exclude that. *)
Definition twice := [(0, Acquire 0 1 100 1000); (1 * MS, exec_at 50 0 1); (1 * MS, exec_at 60 2 1); (2 * MS, Vanish 0 0);
  (3 * MS, Acquire 1 2 200 1000); (4 * MS, exec_at 60 0 2); (4 * MS, exec_at 60 1 2); (5 * MS, Decide 2 1000 (900 * MS) 60); (6 * MS, Vanish 0 0);
  (7 * MS, exec_at 50 0 1); (8 * MS, Confirm 0 1 60 false); (9 * MS, Decide 1 1000 (900 * MS) 60)].
Example executed_once : fences_of (plain correct) (all_but [KeysKept; ExecutedOnce]) twice = Some [(100, 60); (200, 60)].
Proof. vm_compute. reflexivity. Qed.

(* "Larger than that of every lock that was acquired before" is false if a key vanishes early, also if exclusion holds by luck. 100 is granted
   and its keys vanish. 200 is granted, acquired with 101, and ends. Only then does 100's client read its answers, and 100 is acquired with 100. *)
Definition literal := [(0, Acquire 0 1 100 1000); (1 * MS, exec_at 100 0 1); (1 * MS, exec_at 100 1 1); (2 * MS, Vanish 0 0); (2 * MS, Vanish 1 0);
  (3 * MS, Acquire 1 2 200 1000); (4 * MS, exec_at 100 0 2); (4 * MS, exec_at 100 1 2); (5 * MS, Decide 2 1000 (900 * MS) 101);
  (6 * MS, End 200); (7 * MS, Decide 1 1000 (900 * MS) 100)].
Example acquired_before_is_too_strong : fences_of (plain correct) (all_but [KeysKept]) literal = Some [(100, 100); (200, 101)]
  /\ most_at_once (plain correct) (all_but [KeysKept]) init literal = Some 1%nat.
Proof. vm_compute. split; reflexivity. Qed.

(* Under the guard the page asks that any two nodes' clocks differ by less than maxTTL less twice the clamp. That is not enough. Here
   all nodes' clocks agree at every instant, and all are set back by an hour: the nodes that lose their counters start below. *)
Definition back_an_hour t := 10000000 * MS + (if t <? 1500 * MS then t else t - 3600000 * MS).
Definition all_set_back := with_clocks (clocks []) (fun _ => back_an_hour) (guarded_world correct).
Definition hour_earlier := begun ++ [(1001 * MS, Acquire 0 1 100 1000); (1001 * MS, exec_at 10001001000 0 1); (1001 * MS, exec_at 10001001000 1 1);
  (1002 * MS, Decide 1 1000 (1989 * MS) 10001001000); (1003 * MS, End 100); (1600 * MS, Restart 0 Unmarked nothing zero); (1600 * MS, Restart 1 Unmarked nothing zero);
  (1601 * MS, Verify 0); (1601 * MS, Verify 1); (2601 * MS, Verify 0); (2601 * MS, Verify 1);
  (2700 * MS, Acquire 1 2 200 1000); (2700 * MS, exec_at 6402700000 0 2); (2700 * MS, exec_at 6402700000 1 2); (2701 * MS, Decide 2 1000 (3600 * MS) 6402700000)].
Example clocks_set_back_together : fences_of all_set_back (only [NodesRemember]) hour_earlier = Some [(200, 6402700000); (100, 10001001000)].
Proof. vm_compute. reflexivity. Qed.

(* And it is too weak by a millisecond, because quarantines are counted in whole milliseconds. maxTTL is 1,000 ms and the clamp 250 ms, so the
   bound is 500 ms. Node 2 is ahead of the others by 499.5 ms. A node that restarts at the end of a millisecond waits for 999.001 ms. *)
Definition US := 1000.
Definition half_a_second_ahead := with_clocks (clocks []) (clocks [real; real; Clock (499500 * US) 1 1]) (guarded_world correct).
Definition by_a_millisecond := begun ++ [
  (1001000 * US, Acquire 0 1 100 1000);
  (1001500 * US, exec_at 9000000 0 1); (1001500 * US, exec_at 9000000 2 1);     (* 1,251,500 and 1,751,000 *)
  (1001600 * US, Confirm 0 1 1751000 false); (1001700 * US, Decide 1 1000 (1980 * MS) 1751000); (1001800 * US, End 100);
  (1001999 * US, Restart 0 Unmarked nothing zero); (1001999 * US, Verify 0); (2001000 * US, Verify 0);
  (2001000 * US, Acquire 1 2 200 1000); (2001000 * US, exec_at 0 0 2); (2001000 * US, exec_at 0 1 2); (* 1,751,000 *)
  (2001100 * US, Decide 2 1000 (2980 * MS) 1751000)].
Example a_millisecond_too_weak : fences_of half_a_second_ahead (only [NodesRemember]) by_a_millisecond = Some [(200, 1751000); (100, 1751000)].
Proof. vm_compute. reflexivity. Qed.

(* Admit skips the wait of two nodes that lost their counters. No client is running, so it breaks no exclusion. A client's clock is behind. *)
Definition no_wait := begun ++ [(1001 * MS, Acquire 0 1 100 1000); (1001 * MS, exec_at 1251000 0 1); (1001 * MS, exec_at 1251000 1 1);
  (1002 * MS, Decide 1 0 (1989 * MS) 1251000); (1003 * MS, End 100); (1004 * MS, Restart 0 Unmarked nothing zero); (1004 * MS, Restart 1 Unmarked nothing zero);
  (1005 * MS, Admit 0); (1005 * MS, Admit 1);
  (1006 * MS, Acquire 1 2 200 1000); (1006 * MS, exec_at 0 0 2); (1006 * MS, exec_at 0 1 2); (1007 * MS, Decide 2 0 (1990 * MS) 756000)].
Example admit_nothing : fences_of (guarded_world correct) (only [NodesRemember; AdmitNothing]) no_wait = Some [(200, 756000); (100, 1251000)].
Proof. vm_compute. reflexivity. Qed.

(* A name is granted twice in a microsecond, just below the bound on the clocks: the second number is ahead by one. *)
Definition within_the_bound := with_clocks (clocks []) (clocks [real; real; Clock (499000 * US) 1 1]) (guarded_world correct).
Definition too_often := begun ++ [
  (1001000 * US, Acquire 2 9 900 1000); (1001000 * US, Acquire 0 1 100 1000);
  (1001500 * US, exec_at 9000000 2 9); (1001500 * US, End 900); (1001500 * US, Delete 2 0 900);
  (1001500 * US, exec_at 9000000 0 1); (1001500 * US, exec_at 9000000 2 1);     (* 1,251,500 and 1,750,501 *)
  (1001600 * US, Confirm 0 1 1750501 false); (1001700 * US, Decide 1 0 (1980 * MS) 1750501); (1001800 * US, End 100);
  (1001999 * US, Restart 0 Unmarked nothing zero); (1001999 * US, Verify 0); (2001000 * US, Verify 0);
  (2001000 * US, Acquire 1 2 200 1000); (2001000 * US, exec_at 0 0 2); (2001000 * US, exec_at 0 1 2); (* 1,751,000 *)
  (2001100 * US, Decide 2 0 (2980 * MS) 1751000)].
Example numbers_paced : fences_of within_the_bound (only [NodesRemember; NumbersPaced]) too_often = Some [(200, 1751000); (100, 1750501)]
  /\ fences_of within_the_bound (only [NodesRemember]) too_often = None.
Proof. vm_compute. split; reflexivity. Qed.
