(* Reads traces, one event a line, and accepts or rejects each. The format is in README.md of this folder.

   A trace is accepted only if the function [check] of Checker.v accepts its events, and that function is proved. This program is not.
   It translates lines to events, follows them to name the line and the reason of a rejection, and rejects more than the proof asks for:
   what a node or a client says about itself must be true. *)
open Checker

exception Unreadable of int * string
exception Rejected of int * string

(* ---- Numbers ---- *)

let rec positive n = if n = 1 then XH else if n land 1 = 1 then XI (positive (n lsr 1)) else XO (positive (n lsr 1))
let z n = if n = 0 then Z0 else if n > 0 then Zpos (positive n) else Zneg (positive (-n))
let rec of_positive = function XH -> 1 | XI p -> 2 * of_positive p + 1 | XO p -> 2 * of_positive p
let int_of = function Z0 -> 0 | Zpos p -> of_positive p | Zneg p -> - (of_positive p)
let billion = z 1_000_000_000

(* ---- What a file says ---- *)

type line = { no : int; text : string; at : int; words : string list }
type clock = { offset : int; rate : int; changes : (int * int * int) list (* instant, step, rate; the newest first *) }
type file = {
  nodes : int; guard : bool; longest : int; drift : int * int; late : (int * int) option; promises : (string * promise) list; clients : clock list; masters : clock list;
  tokens : (string * (int * int list)) list; (* of each token its number, and the numbers of its names *)
  names : (string, int) Hashtbl.t; lines : line list; heard : bool (* the trace tells which answers clients had *) }

let promise_names = ["exclusion", Excludes; "fences-in-order", FencesInOrder; "fences-differ", FencesDiffer; "nothing-left", NothingLeft]

let number no s = match int_of_string_opt s with Some n -> n | None -> raise (Unreadable (no, "no whole number: " ^ s))
let index table word = match Hashtbl.find_opt table word with
  | Some i -> i
  | None -> let i = Hashtbl.length table in Hashtbl.add table word i; i

let read channel =
  let nodes = ref None and guard = ref false and longest = ref None and drift = ref (10_000, 2_000_000) and late = ref None and promises = ref [] and clients = ref [] and masters = ref [] in
  let tokens = ref [] and names = Hashtbl.create 8 and lines = ref [] and heard = ref false and no = ref 0 in
  let clock no i l o r = if number no i <> List.length !l then raise (Unreadable (no, "clocks are not numbered from 0"));
    l := !l @ [{ offset = number no o; rate = number no r; changes = [] }] in
  let change no at i l s r = let i = number no i in
    if i < 0 || i >= List.length !l then raise (Unreadable (no, "there is no such clock"));
    l := List.mapi (fun j k -> if i = j then { k with changes = (at, number no s, number no r) :: k.changes } else k) !l in
  let event no text t words =
    let at = number no t in
    (match words with
     | "acquire" :: _ :: _ :: token :: _ :: _ :: given ->
       if given = [] then raise (Unreadable (no, "an acquire has names"));
       if not (List.mem_assoc token !tokens) then
         tokens := (token, (List.length !tokens + 1, List.sort_uniq compare (List.map (index names) given))) :: !tokens
     | ["clock"; "client"; i; s; r] -> change no at i clients s r
     | ["clock"; "node"; i; s; r] -> change no at i masters s r
     | "answer" :: _ -> heard := true
     | _ -> ());
    lines := { no; text; at; words } :: !lines in
  (try while true do
    incr no; let no = !no and text = input_line channel in
    match List.filter ((<>) "") (String.split_on_char ' ' (List.hd (String.split_on_char '#' text))) with
    | [] -> ()
    | ["nodes"; n] -> nodes := Some (number no n)
    | ["guard"] -> guard := true
    | ["longest"; n] -> longest := Some (number no n)
    | ["drift"; m; n] -> drift := (number no m, number no n)
    | ["late"; n; part] -> late := Some (number no n, max 1 (number no part))
    | "promise" :: l -> promises := List.map (fun p -> match List.assoc_opt p promise_names with
        | Some q -> p, q | None -> raise (Unreadable (no, "no promise: " ^ p))) l
    | ["client"; i; o; r] -> clock no i clients o r
    | ["node"; i; o; r] -> clock no i masters o r
    | t :: words when t.[0] >= '0' && t.[0] <= '9' -> event no text t words
    | w :: _ -> raise (Unreadable (no, "not understood: " ^ w))
  done with End_of_file -> ());
  let given name = function Some n -> n | None -> raise (Unreadable (!no, "the trace does not say: " ^ name)) in
  let nodes = given "nodes" !nodes in
  if List.length !masters <> nodes || nodes < 1 then raise (Unreadable (!no, "each node needs a clock"));
  { nodes; guard = !guard; longest = given "longest" !longest; drift = !drift; late = !late; clients = !clients; masters = !masters; tokens = !tokens; names;
    promises = (if !promises = [] then [List.hd promise_names] else !promises); lines = List.rev !lines; heard = !heard }

(* After the last event all clocks run as real time does. *)
let course last k =
  let parts = List.rev_map (fun (at, s, r) -> { p_from = z at; p_set = z s; p_num = z r }) ((last, 0, 1_000_000_000) :: k.changes) in
  { c_off = z k.offset; c_den = billion; c_parts = { p_from = Z0; p_set = Z0; p_num = z k.rate } :: parts }

let trace_of f events =
  let last = List.fold_left (fun m l -> max m l.at) 0 f.lines in
  { t_nodes = f.nodes; t_guard = f.guard; t_longest = z f.longest; t_drift = (z (fst f.drift), z (snd f.drift)); t_names = List.map (fun (_, (t, l)) -> z t, l) f.tokens;
    t_clients = List.map (course last) f.clients; t_clocks = List.map (course last) f.masters; t_events = events }

(* ---- What a line means ---- *)

type command = Acquires of int option (* the hint *) | Extends | Inspects | Confirms of int | Repairs
type sent = { id : int; (* the model's round *) command : command; token : string; tok : z; of_names : int list }

let reply = function
  | Silent -> "nothing" | Says Z0 -> "granted" | Says n -> Printf.sprintf "granted %d" (int_of n)
  | Refuses -> "refused" | Unfit -> "unfit" | Uncounted -> "uncounted"
let assumption = function
  | KeysKept -> "a node keeps a key until it expires" | NodesRemember -> "nodes forget nothing" | MarkerHonest -> "the marker is right"
  | TtlBounded -> "no TTL is above the longest one" | AdmitQuiet -> "Admit only while no client is running" | AdmitNothing -> "no Admit"
  | NumbersPaced -> "a name is granted less than once a microsecond" | ClaimOnce -> "a claim is resumed by one client at a time"
  | ExecutedOnce -> "a node executes an acquire once" | InOrder -> "no acquire or repair after the undo"

(* A clock is read again and again at the instant of an event. *)
let remember size clock =
  let last = Array.make size (Z0, None) in
  fun n t -> match last.(n) with
    | at, Some shown when at == t -> shown
    | _ -> let shown = clock n t in last.(n) <- (t, Some shown); shown

let follow f promise =
  let w = world_of (trace_of f []) in
  let w = { w with node_clock = remember f.nodes w.node_clock } and tolerated = assuming (assumed promise f.guard) in
  let state = ref init and events = ref [] and now = ref 0 in
  let sent : (string, sent) Hashtbl.t = Hashtbl.create 64 and fences = Hashtbl.create 16 and answered = Hashtbl.create 64 in
  let said = Hashtbl.create 64 and decided = Hashtbl.create 16 and confirmed = Hashtbl.create 16 and merged = ref (0, []) in
  let line l =
    let reject why = raise (Rejected (l.no, why)) and unreadable why = raise (Unreadable (l.no, why)) in
    let int = number l.no in
    let node n = let n = int n in if n < 0 || n >= f.nodes then unreadable "there is no such node" else n in
    let client c = let c = int c in if c < 0 || c >= List.length f.clients then unreadable "there is no such client" else c in
    let token t = match List.assoc_opt t f.tokens with Some (n, names) -> z n, names | None -> reject ("no attempt has the token " ^ t) in
    let round r = match Hashtbl.find_opt sent r with Some x -> x | None -> reject ("no client has begun round " ^ r) in
    let acquisition t = match Hashtbl.find_opt sent ("acquire " ^ t) with Some x -> x.id | None -> reject ("no client has begun to acquire " ^ t) in
    let fence t = Option.value (Hashtbl.find_opt fences t) ~default:0 in
    let time = z l.at in
    let here () = at_time time !state in

    (* The first of these that the checker lets pass happens. They differ in what a server does in the millisecond in which a key expires. *)
    let happens ?(why = fun () -> "impossible") candidates =
      let rec first = function
        | [] -> None
        | (e, r) :: rest -> (match judge w tolerated !state ((time, e), r) with Inl s -> Some (e, r, s) | Inr _ -> first rest) in
      match first candidates with
      | Some (e, r, s) -> state := s; events := ((time, e), r) :: !events
      | None -> let e, r = List.hd candidates in (match judge w tolerated !state ((time, e), r) with
          | Inr BreaksAssumption ->
            let broken = List.filter (fun a -> not (tolerated a)) (breaks w (here ()) e) in
            reject ("breaks an assumption: " ^ String.concat "; " (List.map assumption broken))
          | Inr (OtherAnswer r) -> reject ("the node cannot have answered this; it would have: " ^
              (match e, r with Verify _, Says _ -> "fit" | Verify _, Refuses -> "began" | Verify _, _ -> "waits" | _ -> reply r))
          | Inr TimeGoesBack -> reject "time goes back"
          | _ -> reject (why ())) in
    let once e = happens [e, Silent] in
    let either make r = happens [make false, r; make true, r] in

    let begin_round c r t command event =
      if Hashtbl.mem sent r then reject ("round " ^ r ^ " was begun before");
      let tok, of_names = token t in
      let x = { id = Hashtbl.length sent + 1; command; token = t; tok; of_names } in
      event (client c) x.id tok;
      Hashtbl.add sent r x; x in

    let execute n r outcome value =
      let x = round r in
      let fenced = match x.command with Acquires (Some _) -> true | _ -> false and asked = x.command = Inspects in
      let r' = match outcome, value with
        | "granted", [v] when fenced || asked -> Says (z (int v))
        | "granted", [] when not fenced && not asked -> Says Z0
        | "refused", [] -> Refuses | "unfit", [] -> Unfit | "uncounted", [] -> Uncounted
        | _ -> unreadable "no such answer to this command" in
      let did = match r' with Says _ | Uncounted -> true | _ -> false in
      let carry () = if did && fence x.token > 0 then
          either (fun edge -> Confirm (n, acquisition x.token, z (fence x.token), edge)) Silent in
      (match x.command with
       | Acquires hint -> either (fun edge -> Exec (n, x.id, Option.map z hint, edge)) r'
       | Inspects -> either (fun edge -> Exec (n, x.id, None, edge)) r'
       | Extends -> either (fun edge -> Exec (n, x.id, None, edge)) r'; carry ()
       | Repairs -> either (fun edge -> Repair (n, x.id, edge)) r'; carry ()
       | Confirms v -> happens ~why:(fun () -> "no node has counted this fence")
           (List.map (fun edge -> Confirm (n, acquisition x.token, z v, edge), r') [false; true]));
      Hashtbl.replace said (r, n) (outcome, value) in

    (* How many keys of a token a node has: at least so many, and at most. *)
    let keys n tok of_names = let s = here () in
      let count edge = List.length (List.filter (mine w s n edge tok) of_names) in count false, count true in
    let give_back n t found given event =
      let tok, of_names = token t in
      let of_names = if given = [] then of_names else List.map (index f.names) given in
      let least, most = keys n tok of_names in
      if found <> "-" && (int found < least || int found > most) then
        reject (Printf.sprintf "the node cannot have found %s keys of this token; it has %s" found
          (if least = most then string_of_int least else Printf.sprintf "%d to %d" least most));
      List.iter (fun x -> happens ~why:(fun () -> "the token may be valid: its end is not in the trace before") [event x tok, Silent]) of_names in

    let decide r validity fence voters =
      let x = round r and voters = List.map node voters and validity = int validity and fence = int fence in
      let s = here () in
      let m = match find_round x.id s.rounds with Some m -> m | None -> unreadable "this round is not decided" in
      (match x.command with Acquires _ | Extends | Inspects -> () | _ -> unreadable "this round is not decided");
      if Hashtbl.mem decided r then reject "the round was decided before";
      Hashtbl.add decided r ();
      if List.length (List.sort_uniq compare voters) <> List.length voters then reject "a node is counted twice";
      if 2 * List.length voters <= f.nodes then reject "the nodes that are counted are no majority";
      List.iter (fun n ->
        (match Hashtbl.find_opt answered (r, n) with
         | Some ("granted", [v]) when fence > 0 && int v <> fence && not (Hashtbl.mem confirmed (x.token, n, fence)) ->
           reject (Printf.sprintf "node %d has counted another number, and no confirmation was answered" n)
         | Some ("granted", _) -> ()
         | _ -> if f.heard then reject (Printf.sprintf "node %d has not answered with a vote" n));
        if not (voted s x.id Z0 n) then reject (Printf.sprintf "node %d has not voted" n)) voters;
      let left n = List.fold_left (fun v a -> if a.a_node = n && a.a_round = x.id && a.a_vote then max v (int_of a.a_left) else v) 0 s.answers in
      let worth = List.fold_left (fun v n -> min v (left n)) f.longest voters in
      (* The margin for late timers, which the proof does not ask for. What counts from PTTL ends a millisecond earlier still. *)
      let within (ns, part) =
        let said n = match Hashtbl.find_opt said (r, n) with Some (_, [v]) -> int v | _ -> 0 in
        let ttl, less = match x.command with Inspects -> List.fold_left (fun v n -> min v (said n)) f.longest voters, 1 | _ -> int_of m.r_ttl, 0 in
        let most = (ttl - less) * 1_000_000 - ttl * fst f.drift - snd f.drift - min ns (ttl * 1_000_000 / part) in
        if validity > most then reject (Printf.sprintf "the validity is too long by %d ns" (validity - most)) in
      Option.iter within f.late;
      let until = Z.add (w.client_clock m.r_client m.r_start) (z validity) and most = limit w m (worth_of m (z worth)) in
      happens [Decide (x.id, z worth, until, z fence), Silent] ~why:(fun () ->
        let clock = w.client_clock m.r_client s.now in
        if not (Z.leb until most) then Printf.sprintf "the validity is too long by %d ns" (int_of (Z.sub until most))
        else if is_in x.tok s.ended then "the attempt or the lock was over"
        else if not (majority w (w.members m.r_client) (voted s x.id (worth_of m (z worth)))) then "no majority has voted"
        else match m.r_kind, handle_of m.r_client x.tok s.handles with
          | Acquiring, None when Z.ltb until clock -> "it was too late"
          | Acquiring, None when fence > 0 && not (fence_stands w s m.r_client x.tok (z fence)) -> "no majority has counted or confirmed this fence"
          | Acquiring, _ -> "the lock was acquired before"
          | Extending, Some _ -> "the lock had ended before"
          | Extending, None -> "the client does not have the lock"
          | Asking, _ -> "the lock is no claim, and the client does not have it");
      match x.command with Acquires _ -> Hashtbl.replace fences x.token fence | _ -> () in

    let rec kept keys counters = function
      | "key" :: x :: t :: e :: rest ->
        let tok = match List.assoc_opt t f.tokens with Some (n, _) -> z n | None -> z (- 1 - Hashtbl.hash t) in
        kept ((index f.names x, (tok, z (int e))) :: keys) counters rest
      | "counter" :: x :: v :: rest -> kept keys ((index f.names x, z (int v)) :: counters) rest
      | [] -> (fun x -> List.assoc_opt x keys), (fun x -> Option.value (List.assoc_opt x counters) ~default:Z0)
      | w :: _ -> unreadable ("not understood: " ^ w) in

    if l.at < !now then reject "time goes back";
    now := l.at;
    (* A merged command is executed at one instant. *)
    (match !merged, l.words with
     | (0, _), _ -> ()
     | (k, (n :: t :: _ as same)), (("exec" | "release") :: m :: _) when m = n && t = string_of_int l.at -> merged := (k - 1, same)
     | _ -> reject "a merged command has more lines");
    match l.words with
    | "acquire" :: c :: r :: t :: ttl :: hint :: _ ->
      let hint = if hint = "-" then None else Some (int hint) in
      let x = begin_round c r t (Acquires hint) (fun c id tok -> happens [Acquire (c, id, tok, z (int ttl)), Silent]
        ~why:(fun () -> "the token was used before")) in
      Hashtbl.replace sent ("acquire " ^ t) x
    | ["extend"; c; r; t; ttl] -> ignore (begin_round c r t Extends (fun c id tok -> happens [Extend (c, id, tok, z (int ttl)), Silent]
        ~why:(fun () -> "the client's lock is not valid")))
    | ["repair"; c; r; t; ttl] -> ignore (begin_round c r t Repairs (fun c id tok -> happens [Extend (c, id, tok, z (int ttl)), Silent]
        ~why:(fun () -> "the client's lock is not valid")))
    | [("check" | "resume"); c; r; t] -> ignore (begin_round c r t Inspects (fun c id tok -> once (Ask (c, id, tok))))
    | ["confirm"; c; r; t; v] -> ignore (begin_round c r t (Confirms (int v)) (fun _ _ _ -> ignore (acquisition t)))
    | "exec" :: n :: r :: outcome :: value -> execute (node n) r outcome value
    | ["answer"; r; n; outcome] ->
      let n = node n in
      (match Hashtbl.find_opt said (r, n) with
       | Some (o, value) when o = outcome -> Hashtbl.replace answered (r, n) (o, value)
       | _ -> reject "the node has not given this answer");
      (match round r with
       | { command = Confirms v; token; _ } when outcome = "granted" -> Hashtbl.replace confirmed (token, n, v) ()
       | _ -> ())
    | "decide" :: r :: validity :: fence :: voters -> decide r validity fence voters
    | ["use"; c; t] -> happens [Use (client c, fst (token t)), Silent] ~why:(fun () -> "the client's lock is not valid")
    | ["detach"; c; t] -> happens [Detach (client c, fst (token t)), Silent] ~why:(fun () -> "the client's lock is not valid")
    | ["end"; t] -> once (End (fst (token t)))
    | "release" :: n :: t :: found :: given -> give_back (node n) t found given (fun x tok -> Delete (node n, x, tok))
    | "shorten" :: n :: t :: ttl :: found :: given -> give_back (node n) t found given (fun x tok -> Shorten (node n, x, tok, z (int ttl)))
    | ["verify"; n; "fit"] -> happens [Verify (node n), Says Z0]
    | ["verify"; n; "began"] -> happens [Verify (node n), Refuses]
    | ["verify"; n; "waits"] -> (match (here ()).mark (node n) with Quarantined _ -> () | _ -> reject "the node is not in quarantine")
    | ["admit"; n] -> happens [Admit (node n), Silent] ~why:(fun () -> "the node has a marker")
    | ["restart"; n; "kept"] -> once (Reboot (node n))
    | "restart" :: n :: rest -> let keys, counters = kept [] [] rest in once (Restart (node n, Unmarked, keys, counters))
    | ["vanish"; n; x] -> once (Vanish (node n, index f.names x))
    | ["merged"; n; k] -> merged := (int k, [n; string_of_int l.at])
    | "clock" :: _ -> ()
    | w :: _ -> unreadable ("not understood: " ^ w)
    | [] -> unreadable "an instant without an event" in
  List.iter line f.lines;
  if fst !merged > 0 then raise (Rejected (0, "a merged command has more lines"));
  trace_of f (List.rev !events)

(* ---- Verdicts ---- *)

let judge_file f =
  List.iter (fun (name, p) ->
    if not (clocks_suffice p (trace_of f [])) then raise (Rejected (0, name ^ ": the clocks differ by more than is assumed"));
    let t = try follow f p with Rejected (no, why) -> raise (Rejected (no, name ^ ": " ^ why)) in
    if not (check p t) then raise (Rejected (0, name ^ ": the checker does not accept it"))) f.promises;
  Printf.sprintf "accepted: %s; %d events" (String.concat ", " (List.map fst f.promises)) (List.length f.lines)

let verdict name channel =
  let code, text = try 0, judge_file (read channel) with
    | Rejected (0, why) -> 1, "rejected: " ^ why
    | Rejected (no, why) -> 1, Printf.sprintf "rejected at line %d: %s" no why
    | Unreadable (no, why) -> 2, Printf.sprintf "unreadable at line %d: %s" no why in
  print_endline (if name = "" then text else name ^ ": " ^ text); code

let () =
  let files = List.tl (Array.to_list Sys.argv) in
  exit (if files = [] then verdict "" stdin else List.fold_left (fun worst name ->
    let channel = open_in name in
    let code = verdict name channel in close_in channel; max worst code) 0 files)
