-- What deliverers do, each a function, so that no client stands between a lock and what is done under it.

-- The oldest message of the conversation that may go is the next; the caller has locked the conversation.
create function next_delivery(tenant text, conversation uuid, spacing_ms float8 default 0) returns void
language sql volatile as $next$
  update deliveries d
  set head = true, next_at = greatest(d.next_at, clock_timestamp() + spacing_ms * interval '1 ms')
  from (
    select delivery_id
    from deliveries
    where tenant_id = tenant and conversation_id = conversation and status = 'pending'
    order by seq
    limit 1
  ) n
  where d.tenant_id = tenant and d.delivery_id = n.delivery_id
    and not exists (select 1 from deliveries h where h.tenant_id = tenant and h.conversation_id = conversation and h.head)
$next$;

-- Puts messages into the outbox, in the caller's transaction: a JSON array of {delivery_id, source_kind, source_id, part, thread_id,
-- run_id, conversation_id, kind, payload, on_unknown, not_after}, and `suppressed`, a word, for what is only to be seen. The account is the conversation's. What is there already stays as
-- it is; where nothing arrives it waits for the person to write. Returns how many came to it.
create function post_deliveries(tenant text, posted json) returns int
language plpgsql volatile as $post$
declare
  n int;
begin
  perform 1
  from conversations
  where tenant_id = tenant and conversation_id in (select (p ->> 'conversation_id')::uuid from json_array_elements(posted) p)
  order by conversation_id
  for no key update;
  with new as (
    insert into deliveries (tenant_id, delivery_id, source_kind, source_id, part, thread_id, run_id, channel_account_id,
      conversation_id, kind, payload, payload_sha256, on_unknown, not_after, status, error_code)
    select tenant, (p ->> 'delivery_id')::uuid, p ->> 'source_kind', (p ->> 'source_id')::uuid, (p ->> 'part')::int,
      (p ->> 'thread_id')::uuid, (p ->> 'run_id')::uuid, c.channel_account_id, c.conversation_id, p ->> 'kind',
      convert_to(p ->> 'payload', 'UTF8'), sha256(convert_to(p ->> 'payload', 'UTF8')), p ->> 'on_unknown',
      (p ->> 'not_after')::timestamptz,
      case when p ->> 'suppressed' is not null then 'suppressed' when c.unreachable_at is null then 'pending' else 'parked' end,
      coalesce(p ->> 'suppressed', c.unreachable_code)
    from json_array_elements(posted) with ordinality as rows(p, position)
    join conversations c on c.tenant_id = tenant and c.conversation_id = (p ->> 'conversation_id')::uuid
    order by position
    on conflict on constraint deliveries_source do nothing
    returning conversation_id
  ), counted as (
    select count(*)::int as n from new
  )
  select counted.n into n from counted;
  perform next_delivery(tenant, c.conversation_id)
  from (select distinct (p ->> 'conversation_id')::uuid as conversation_id from json_array_elements(posted) p) c;
  return n;
end
$post$;

-- A line in the log of the run that a message is of.
create function log_delivery(d deliveries, happened text, code text) returns void
language sql volatile as $log$
  insert into events (tenant_id, thread_id, run_id, attempt, type, payload)
  select r.tenant_id, r.thread_id, r.run_id, r.attempt, 'delivery.' || happened,
    jsonb_strip_nulls(jsonb_build_object('delivery_id', d.delivery_id, 'part', d.part, 'code', code))
  from runs r
  where r.tenant_id = d.tenant_id and r.run_id = d.run_id
$log$;

-- The accounts for which something waits: from account to account over the index, never over the queue.
create function queued_accounts() returns table (tenant_id text, channel_account_id uuid)
language sql stable as $queued$
  with recursive walk(tenant_id, channel_account_id) as (
    (select d.tenant_id, d.channel_account_id
      from deliveries d
      where d.status = 'pending' and d.head
      order by d.tenant_id, d.channel_account_id
      limit 1)
    union all
    select n.tenant_id, n.channel_account_id
    from walk w
    cross join lateral (
      select d.tenant_id, d.channel_account_id
      from deliveries d
      where d.status = 'pending' and d.head
        and (d.tenant_id, d.channel_account_id) > (w.tenant_id, w.channel_account_id)
      order by d.tenant_id, d.channel_account_id
      limit 1
    ) n
  )
  select tenant_id, channel_account_id from walk
$queued$;

-- Takes what is due, of each account in turn and no more than its rate allows; one claimer at a time, since rates can't hold
-- otherwise. Nothing has left when this is committed.
create function claim_deliveries(slots int, worker text, lease_ms float8)
returns table (
  o_tenant_id text, o_delivery_id uuid, o_channel_account_id uuid, o_conversation_id uuid, o_thread_id uuid, o_run_id uuid,
  o_token uuid, o_kind text, o_payload bytea, o_attempts int, o_refusals int, o_source_kind text, o_part int, o_on_unknown text,
  o_reserved_message_id text)
language plpgsql volatile set plan_cache_mode = force_generic_plan set jit = off as $claim$
#variable_conflict use_column
begin
  perform pg_advisory_xact_lock(7264861091);
  return query
  with
  account as materialized (
    -- One that was out of order is tried with one message.
    select a.tenant_id, a.channel_account_id, a.per_second, a.troubles,
      case when a.troubles >= 5 then 1
        when a.per_second is null then slots
        else least(greatest(a.per_second, 1),
          a.tokens + a.per_second * extract(epoch from clock_timestamp() - a.tokens_at)) end as tokens
    from queued_accounts() w
    join channel_accounts a using (tenant_id, channel_account_id)
    where a.status = 'open' and (a.blocked_until is null or a.blocked_until <= clock_timestamp())
  ),
  candidate as materialized (
    select a.tenant_id, d.delivery_id, d.next_at, d.seq,
      row_number() over (partition by a.tenant_id, a.channel_account_id order by d.next_at, d.seq) as turn
    from account a
    cross join lateral (
      select d.delivery_id, d.next_at, d.seq
      from deliveries d
      where d.status = 'pending' and d.head and d.tenant_id = a.tenant_id
        and d.channel_account_id = a.channel_account_id and d.next_at <= clock_timestamp()
      order by d.next_at, d.seq
      limit least(slots, floor(a.tokens)::int)
    ) d
  ),
  locked as materialized (
    select d.tenant_id, d.delivery_id
    from deliveries d
    where (d.tenant_id, d.delivery_id) in (
        select tenant_id, delivery_id from candidate order by turn, next_at, seq limit slots)
      and d.status = 'pending' and d.head
    order by d.delivery_id
    for no key update skip locked
  ),
  claimed as (
    update deliveries d
    set status = 'sending', lease_until = clock_timestamp() + lease_ms * interval '1 ms',
      current_token = gen_random_uuid(), updated_at = clock_timestamp()
    from locked
    where d.tenant_id = locked.tenant_id and d.delivery_id = locked.delivery_id
    returning d.*
  ),
  tried as (
    insert into delivery_attempts (tenant_id, token, delivery_id, worker)
    select tenant_id, current_token, delivery_id, worker from claimed
  ),
  spent as (
    update channel_accounts a
    set tokens = x.tokens - c.n, tokens_at = clock_timestamp(),
      blocked_until = case when x.troubles >= 5 then clock_timestamp() + lease_ms * interval '1 ms' else a.blocked_until end
    from account x
    join (select tenant_id, channel_account_id, count(*)::int as n from claimed group by 1, 2) c
      using (tenant_id, channel_account_id)
    where a.tenant_id = x.tenant_id and a.channel_account_id = x.channel_account_id
      and (x.per_second is not null or x.troubles >= 5)
  )
  select c.tenant_id, c.delivery_id, c.channel_account_id, c.conversation_id, c.thread_id, c.run_id, c.current_token, c.kind,
    c.payload, c.attempts, c.refusals, c.source_kind, c.part, c.on_unknown, c.reserved_message_id
  from claimed c;
end
$claim$;

-- From now on it may have left. Null: it is not ours any more. Answers with how long the lease still is, and with what decides how to
-- send, as of now.
create function start_delivery(tenant text, delivery uuid, token uuid)
returns table (o_lease_ms float8, o_expired boolean, o_silent_ms float8, o_address jsonb)
language sql volatile as $start$
  with mine as (
    select d.tenant_id, d.delivery_id, d.lease_until, d.not_after, d.conversation_id
    from deliveries d
    where d.tenant_id = tenant and d.delivery_id = delivery and d.current_token = token and d.status = 'sending'
      and d.lease_until > clock_timestamp()
    for no key update
  ), marked as (
    update delivery_attempts a
    set wire_started_at = clock_timestamp()
    from mine
    where a.tenant_id = mine.tenant_id and a.token = start_delivery.token
      and (mine.not_after is null or mine.not_after > clock_timestamp())
  )
  select extract(epoch from m.lease_until - clock_timestamp())::float8 * 1000,
    coalesce(m.not_after <= clock_timestamp(), false),
    extract(epoch from clock_timestamp() - c.last_inbound_at)::float8 * 1000, c.address
  from mine m
  join conversations c using (tenant_id, conversation_id)
$start$;

-- What became of an attempt. how: sent, unknown, failed, later (certainly not sent; `after_ms` says when again), expired, parked,
-- suppressed.
-- A late answer of a slow worker still counts while its token is the newest. True when it did.
create function settle_delivery(
  tenant text, delivery uuid, tok uuid, how text, message_id text, code text, after_ms float8, counts boolean, spacing_ms float8)
returns boolean
language plpgsql volatile as $settle$
declare
  d deliveries;
  conversation uuid;
begin
  select conversation_id into conversation from deliveries where tenant_id = tenant and delivery_id = delivery;
  if not found then return false; end if;
  perform 1 from conversations where tenant_id = tenant and conversation_id = conversation for no key update;
  update delivery_attempts
  set outcome = how, provider_message_id = message_id, error_code = code, settled_at = clock_timestamp()
  where tenant_id = tenant and token = tok;
  select * into d from deliveries where tenant_id = tenant and delivery_id = delivery for no key update;
  if not found then return false; end if;
  if d.current_token is distinct from tok then
    -- Given up and sent again since: the person may have it twice, but where it was put in the same place twice.
    if how = 'sent' and d.on_unknown <> 'reserve_edit' then
      update deliveries set duplicate = true where tenant_id = tenant and delivery_id = delivery;
    end if;
    return false;
  end if;
  -- A receipt was faster.
  if d.status not in ('sending', 'unknown') then return true; end if;
  -- Taken without an id: that is no reason to send it again.
  if how = 'unknown' and d.on_unknown in ('resend', 'reserve_edit') and code is distinct from 'unconfirmed' then
    how := 'later';
    counts := true;
  end if;
  update deliveries
  set lease_until = null, error_code = code, updated_at = clock_timestamp(),
    provider_message_id = coalesce(message_id, provider_message_id),
    reserved_message_id = case when code is distinct from 'place_gone' then reserved_message_id end,
    attempts = attempts + (how in ('sent', 'unknown') or (how = 'later' and counts and d.on_unknown in ('resend', 'reserve_edit')))::int,
    refusals = case when how = 'later' and counts then refusals + 1 when how = 'later' then refusals else 0 end,
    status = case how when 'later' then 'pending' else how end,
    -- What will be found out keeps its place.
    head = how = 'later' or (how = 'unknown' and on_unknown = 'reconcile'),
    next_at = case when how in ('later', 'unknown') then clock_timestamp() + after_ms * interval '1 ms' else next_at end,
    unknown_since = case when how = 'unknown' then coalesce(unknown_since, clock_timestamp()) end,
    settled_at = case when how in ('later', 'unknown') then null else clock_timestamp() end
  where tenant_id = tenant and delivery_id = delivery;
  if how in ('sent', 'unknown', 'failed', 'parked', 'expired', 'suppressed') then
    perform log_delivery(d, how, code);
  end if;
  perform next_delivery(tenant, conversation, spacing_ms);
  return true;
end
$settle$;

-- Deliveries whose worker is gone: what had not left goes again, of the rest nobody knows. Returns how many there were.
create function recover_deliveries(unsure_after_ms float8) returns int
language plpgsql volatile as $recover$
declare
  lost record;
  n int := 0;
  left_at timestamptz;
begin
  for lost in
    select d.tenant_id, d.delivery_id, d.conversation_id, d.current_token
    from deliveries d
    where d.status = 'sending' and d.lease_until < clock_timestamp()
    order by d.lease_until
    limit 500
  loop
    perform 1
    from conversations
    where tenant_id = lost.tenant_id and conversation_id = lost.conversation_id
    for no key update skip locked;
    continue when not found;
    perform 1
    from deliveries
    where tenant_id = lost.tenant_id and delivery_id = lost.delivery_id and current_token = lost.current_token
      and status = 'sending' and lease_until < clock_timestamp()
    for no key update;
    continue when not found;
    select wire_started_at into left_at
    from delivery_attempts
    where tenant_id = lost.tenant_id and token = lost.current_token;
    n := n + 1;
    update deliveries
    set lease_until = null, updated_at = clock_timestamp(),
      status = case when left_at is null or on_unknown in ('resend', 'reserve_edit') then 'pending' else 'unknown' end,
      head = left_at is null or on_unknown <> 'hold',
      attempts = attempts + (left_at is not null)::int,
      error_code = case when left_at is not null then 'worker_lost' end,
      unknown_since = case when left_at is not null and on_unknown not in ('resend', 'reserve_edit') then clock_timestamp() end,
      next_at = clock_timestamp() + case when left_at is not null and on_unknown = 'reconcile' then unsure_after_ms else 0 end
        * interval '1 ms'
    where tenant_id = lost.tenant_id and delivery_id = lost.delivery_id;
    if left_at is not null then
      perform log_delivery(d, 'unknown', 'worker_lost')
      from deliveries d
      where d.tenant_id = lost.tenant_id and d.delivery_id = lost.delivery_id;
    end if;
    perform next_delivery(lost.tenant_id, lost.conversation_id);
  end loop;
  return n;
end
$recover$;

-- Nobody can say what became of it: it is left to a person, and the next ones go.
create function leave_unsure(tenant text, delivery uuid, token uuid) returns void
language plpgsql volatile as $leave$
declare
  conversation uuid;
begin
  select conversation_id into conversation from deliveries where tenant_id = tenant and delivery_id = delivery;
  perform 1 from conversations where tenant_id = tenant and conversation_id = conversation for no key update;
  update deliveries
  set head = false, on_unknown = 'hold', updated_at = clock_timestamp()
  where tenant_id = tenant and delivery_id = delivery and current_token = token and status = 'unknown';
  perform next_delivery(tenant, conversation);
end
$leave$;

-- What the channel told of a message: it settles a try of which nobody knew, and raises what is known of one that was sent. Receipts
-- come in any order and more than once.
-- Returns the conversation where it parked a message that the channel had taken at first.
create function note_receipt(tenant text, account uuid, message_id text, said text, tok uuid, code text) returns uuid
language plpgsql volatile as $receipt$
declare
  delivery uuid;
  conversation uuid;
  d deliveries;
begin
  insert into delivery_receipts (tenant_id, channel_account_id, provider_message_id, status, token, error_code)
  values (tenant, account, message_id, said, tok, code)
  on conflict do nothing;
  select a.delivery_id into delivery from delivery_attempts a where a.tenant_id = tenant and a.token = tok;
  if delivery is null then
    select r.delivery_id into delivery
    from deliveries r
    where r.tenant_id = tenant and r.channel_account_id = account and r.provider_message_id = message_id;
  end if;
  select r.conversation_id into conversation from deliveries r where r.tenant_id = tenant and r.delivery_id = delivery;
  if not found then return null; end if;
  perform 1 from conversations c where c.tenant_id = tenant and c.conversation_id = conversation for no key update;
  select * into d from deliveries r where r.tenant_id = tenant and r.delivery_id = delivery for no key update;
  if tok is not null and d.current_token is distinct from tok then
    -- Of a try that was given up. It arrived, and so may have the next.
    update deliveries r
    set duplicate = r.attempts > 1 and r.status in ('sending', 'sent', 'delivered', 'read')
    where r.tenant_id = tenant and r.delivery_id = delivery;
    if d.status <> 'unknown' then return null; end if;
  end if;
  if said = 'failed' then
    update deliveries r
    set status = case code when 'window_closed' then 'parked' else 'failed' end, error_code = code, head = false, lease_until = null, updated_at = clock_timestamp(),
      -- It went out, and whoever sent it won't count that any more.
      attempts = r.attempts + (r.status = 'sending')::int,
      provider_message_id = coalesce(r.provider_message_id, message_id), unknown_since = null,
      settled_at = clock_timestamp()
    where r.tenant_id = tenant and r.delivery_id = delivery and r.status in ('sending', 'unknown', 'sent');
  else
    update deliveries r
    set status = said, error_code = null, head = false, lease_until = null, updated_at = clock_timestamp(),
      attempts = r.attempts + (r.status = 'sending')::int,
      provider_message_id = coalesce(r.provider_message_id, message_id), unknown_since = null,
      settled_at = coalesce(r.settled_at, clock_timestamp())
    where r.tenant_id = tenant and r.delivery_id = delivery
      and array_position(array['sent', 'delivered', 'read'], said)
        > coalesce(array_position(array['sent', 'delivered', 'read'], r.status), 0)
      and r.status in ('sending', 'unknown', 'sent', 'delivered');
  end if;
  if found then
    perform log_delivery(d, said, code);
    perform next_delivery(tenant, conversation);
    if said = 'failed' and code = 'window_closed' then return conversation; end if;
  end if;
  return null;
end
$receipt$;

-- What a person says of a message that was left to them. again: it is sent (once more); sent: it arrived. False: it isn't in a state
-- for that.
create function resolve_delivery(tenant text, delivery uuid, how text) returns boolean
language plpgsql volatile as $resolve$
declare
  conversation uuid;
  d deliveries;
begin
  select r.conversation_id into conversation from deliveries r where r.tenant_id = tenant and r.delivery_id = delivery;
  if not found then return false; end if;
  perform 1 from conversations c where c.tenant_id = tenant and c.conversation_id = conversation for no key update;
  select * into d from deliveries r where r.tenant_id = tenant and r.delivery_id = delivery for no key update;
  if not (d.status = 'unknown' or (how = 'again' and d.status in ('failed', 'parked', 'expired', 'suppressed'))) then
    return false;
  end if;
  update deliveries r
  set status = case how when 'again' then 'pending' else 'sent' end, head = false, refusals = 0, error_code = null,
    unknown_since = null, next_at = clock_timestamp(), not_after = case how when 'sent' then r.not_after end,
    settled_at = case how when 'sent' then clock_timestamp() end, updated_at = clock_timestamp()
  where r.tenant_id = tenant and r.delivery_id = delivery;
  perform log_delivery(d, case how when 'again' then 'again' else 'sent' end, 'by_hand');
  perform next_delivery(tenant, conversation);
  return true;
end
$resolve$;

-- What a follow-up has to say isn't wanted any more: what waits isn't sent.
create function suppress_deliveries(tenant text, followup uuid, out o_suppressed int, out o_left int)
language plpgsql volatile as $suppress$
declare
  conversation uuid;
begin
  select d.conversation_id into conversation
  from deliveries d
  where d.tenant_id = tenant and d.source_kind in ('followup', 'outreach') and d.source_id = followup
  limit 1;
  perform 1 from conversations c where c.tenant_id = tenant and c.conversation_id = conversation for no key update;
  with stopped as (
    update deliveries d
    set status = 'suppressed', head = false, error_code = 'cancelled', settled_at = clock_timestamp(),
      updated_at = clock_timestamp()
    where d.tenant_id = tenant and d.source_kind in ('followup', 'outreach') and d.source_id = followup and d.status in ('pending', 'parked')
    returning 1
  )
  select count(*)::int into o_suppressed from stopped;
  select count(*)::int into o_left
  from deliveries d
  where d.tenant_id = tenant and d.source_kind in ('followup', 'outreach') and d.source_id = followup
    and d.status in ('sending', 'sent', 'delivered', 'read', 'unknown');
  if conversation is not null then
    perform next_delivery(tenant, conversation);
  end if;
end
$suppress$;

-- How long until something is due that a deliverer could do: a message whose time comes, one that is to be found out about, or one whose
-- account has room for it again.
create function next_delivery_in_ms() returns float8
language sql volatile as $due$
  with first as (
    select greatest(
      (select min(d.next_at)
        from deliveries d
        where d.status = 'pending' and d.head and d.tenant_id = a.tenant_id and d.channel_account_id = a.channel_account_id),
      a.blocked_until,
      case when a.per_second is not null
        then a.tokens_at + (1 - a.tokens) / a.per_second * interval '1 s' end) as at
    from queued_accounts() w
    join channel_accounts a using (tenant_id, channel_account_id)
    where a.status = 'open'
    union all
    select min(next_at) from deliveries where status = 'unknown' and head
  )
  select extract(epoch from min(at) - clock_timestamp())::float8 * 1000 from first
$due$;
