-- Outreach: persons of the tenant, who of them wants nothing, and schedules that write to them. What a schedule makes for one person is a
-- follow-up; what is here says for whom, and when.
create table contacts (
  tenant_id text collate "C" not null references tenants,
  contact_id uuid not null,
  -- What the tenant calls the person.
  key text collate "C" not null check (length(key) between 1 and 200),
  -- For templates, dates and audiences. It is content.
  attributes jsonb not null default '{}',
  time_zone text,
  locale text,
  -- Since when they have agreed to marketing, and what shows it.
  opted_in_at timestamptz,
  opt_in_source text,
  version int not null default 1,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, contact_id),
  constraint contacts_key unique (tenant_id, key),
  constraint contacts_opted_in check ((opted_in_at is null) = (opt_in_source is null))
);

-- Where a person is reached, the first choice first. A conversation is of one person.
create table contact_conversations (
  tenant_id text collate "C" not null,
  conversation_id uuid not null,
  contact_id uuid not null,
  position int not null,
  primary key (tenant_id, conversation_id),
  foreign key (tenant_id, conversation_id) references conversations on delete cascade,
  foreign key (tenant_id, contact_id) references contacts on delete cascade
);
create index contact_conversations_contact on contact_conversations (tenant_id, contact_id, position);

-- Who wants no outreach. By address and by the tenant's key, since both outlive the rows that have them.
create table suppressions (
  tenant_id text collate "C" not null references tenants,
  suppression_id uuid not null,
  contact_key text collate "C",
  channel_account_id uuid,
  address_key text collate "C",
  scope text not null check (scope in ('all', 'marketing')),
  -- stop: they wrote so; blocked, opted_out: their channel says so; api: the tenant does.
  cause text not null check (cause in ('stop', 'blocked', 'opted_out', 'api')),
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, suppression_id),
  constraint suppressions_of_one check (num_nonnulls(contact_key, address_key) = 1),
  constraint suppressions_address check ((channel_account_id is null) = (address_key is null))
);
create unique index suppressions_contact on suppressions (tenant_id, contact_key, scope, cause) where contact_key is not null;
create unique index suppressions_at on suppressions (tenant_id, channel_account_id, address_key, scope, cause)
  where address_key is not null;

-- Whether nothing of this kind may go to a conversation: by its address, or since its person wants nothing anywhere.
create function is_suppressed(tenant text, conversation uuid, marketing boolean) returns boolean
language sql stable as $suppressed$
  select exists (
    select 1
    from conversations c
    join suppressions s on s.tenant_id = c.tenant_id and s.channel_account_id = c.channel_account_id
      and s.address_key = c.address_key
    where c.tenant_id = tenant and c.conversation_id = conversation and (s.scope = 'all' or marketing)
  ) or exists (
    select 1
    from contact_conversations l
    join contacts p using (tenant_id, contact_id)
    join suppressions s on s.tenant_id = p.tenant_id and s.contact_key = p.key
    where l.tenant_id = tenant and l.conversation_id = conversation and (s.scope = 'all' or marketing)
  )
$suppressed$;

-- Whether a contact's attributes are as an audience wants them: a JSON array of {attribute, op, value}, all of which must hold. Numbers
-- are compared as numbers, text by its characters; what is not there, or of another type, fits nothing but absent and ne.
create function fits(attributes jsonb, wanted jsonb) returns boolean
language sql immutable as $fits$
  select coalesce(bool_and(case w ->> 'op'
    when 'eq' then has is not null and has = w -> 'value'
    when 'ne' then has is distinct from w -> 'value'
    when 'in' then has is not null and (w -> 'value') @> jsonb_build_array(has)
    when 'exists' then coalesce(jsonb_typeof(has), 'null') <> 'null'
    when 'absent' then coalesce(jsonb_typeof(has), 'null') = 'null'
    else case
      when jsonb_typeof(has) is distinct from jsonb_typeof(w -> 'value') then false
      when jsonb_typeof(has) = 'number' then case w ->> 'op'
        when 'lt' then (has #>> '{}')::numeric < (w ->> 'value')::numeric
        when 'lte' then (has #>> '{}')::numeric <= (w ->> 'value')::numeric
        when 'gt' then (has #>> '{}')::numeric > (w ->> 'value')::numeric
        when 'gte' then (has #>> '{}')::numeric >= (w ->> 'value')::numeric
        else false end
      when jsonb_typeof(has) = 'string' then case w ->> 'op'
        when 'lt' then (has #>> '{}') collate "C" < (w ->> 'value')
        when 'lte' then (has #>> '{}') collate "C" <= (w ->> 'value')
        when 'gt' then (has #>> '{}') collate "C" > (w ->> 'value')
        when 'gte' then (has #>> '{}') collate "C" >= (w ->> 'value')
        else false end
      else false end
    end), true)
  from (select w, attributes -> (w ->> 'attribute') as has from jsonb_array_elements(wanted) w) each_one
$fits$;

create table schedules (
  tenant_id text collate "C" not null references tenants,
  schedule_id uuid not null,
  name text not null check (length(name) between 1 and 80),
  -- cron: again and again. once. relative: so many days before a date that each recipient has, looked at once a day.
  kind text not null check (kind in ('cron', 'once', 'relative')),
  -- Of once null; of relative its hour of the day.
  cron text,
  time_zone text not null,
  -- {attribute, days_before: []}
  relative jsonb,
  -- {contacts: []}, {conversations: []} or {where: []}, perhaps with {channel_account_id}
  audience jsonb not null,
  mode text not null check (mode in ('remind', 'work')),
  -- JSON {about, instruction}, with {{variables}}: content.
  content bytea not null,
  purpose text not null check (purpose in ('utility', 'marketing')),
  -- {from, to}: times on the recipient's wall.
  quiet_hours jsonb,
  catchup text not null check (catchup in ('latest', 'skip', 'all')),
  catchup_window_ms bigint not null check (catchup_window_ms >= 0),
  overlap text not null check (overlap in ('skip', 'queue')),
  jitter_ms bigint not null check (jitter_ms >= 0),
  -- An occurrence isn't wanted any more so long after its time; null: it always is.
  expires_ms bigint check (expires_ms > 0),
  starts_at timestamptz,
  ends_at timestamptz,
  max_occurrences int check (max_occurrences > 0),
  -- How many there have been.
  occurrences int not null default 0,
  -- ended: there is no next time.
  status text not null default 'active' check (status in ('active', 'paused', 'ended')),
  next_at timestamptz,
  version int not null default 1,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, schedule_id),
  constraint schedules_name unique (tenant_id, name),
  constraint schedules_kind check (
    (kind = 'once') = (cron is null) and (kind = 'relative') = (relative is not null)),
  constraint schedules_next check (status = 'active' or next_at is null)
);

-- The times of a schedule. A large audience is gone through in several transactions: `done_to` is how far.
create table schedule_firings (
  tenant_id text collate "C" not null,
  schedule_id uuid not null,
  occurrence_at timestamptz not null,
  cause text not null check (cause in ('due', 'now', 'backfill')),
  -- missed: nobody could look at its time, and its policy leaves it at that. skipped: it was passed over for another reason.
  status text not null check (status in ('firing', 'fired', 'missed', 'skipped')),
  reason text,
  -- Times that this row stands for: those missed in a row have one.
  times int not null default 1,
  overlap text not null check (overlap in ('skip', 'queue')),
  done_to uuid,
  made int not null default 0,
  skipped int not null default 0,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, schedule_id, occurrence_at),
  foreign key (tenant_id, schedule_id) references schedules on delete cascade
);
create index schedule_firings_open on schedule_firings (tenant_id, schedule_id, occurrence_at) where status = 'firing';
create index schedule_firings_old on schedule_firings (updated_at) where status <> 'firing';

-- What a schedule makes for one recipient. `occurrence` is its time, or the days before which date: what makes it the same one again.
alter table followups
  add column schedule_id uuid,
  -- A contact's id, or that of a conversation of nobody.
  add column recipient uuid,
  add column occurrence text collate "C",
  add column occurrence_at timestamptz,
  -- When it went out, for how much a person gets in a day.
  add column fired_at timestamptz,
  -- One that was passed over may have nobody to be for.
  alter column thread_id drop not null,
  alter column assistant_id drop not null,
  alter column graph_id drop not null,
  add constraint followups_place check (
    status = 'skipped' or (thread_id is not null and assistant_id is not null and graph_id is not null)),
  add constraint followups_occurrence check (
    num_nonnulls(schedule_id, recipient, occurrence, occurrence_at) in (0, 4));
create unique index followups_once on followups (tenant_id, schedule_id, recipient, occurrence) where schedule_id is not null;
create index followups_of_schedule on followups (tenant_id, schedule_id, occurrence_at desc) where schedule_id is not null;
create index followups_recent on followups (tenant_id, recipient, fired_at) where fired_at is not null;
create index followups_outreach_open on followups (tenant_id, schedule_id, recipient)
  where schedule_id is not null and status in ('pending', 'running', 'waiting_approval');
create index followups_outreach_work on followups (tenant_id) where schedule_id is not null and status = 'running' and mode = 'work';
-- Of what was promised, for how much of it there may be.
drop index followups_open;
create index followups_open on followups (tenant_id, thread_id)
  where schedule_id is null and status in ('pending', 'parked', 'running', 'waiting_approval');

-- Tells reminders that are due, in one statement with the timers that are done by it: those that nothing speaks against, on threads where
-- nothing goes on. A JSON array of {tenant_id, timer_id, followup_id, thread_id, run_id, assistant_id, graph_id, priority, metadata_below,
-- metadata, request}, no two on one thread. What it leaves out has to be looked at one by one. Returns those that it told.
create function tell_reminders(due json) returns table (o_timer_id uuid)
language sql volatile as $tell$
  with asked as (
    select *
    from json_to_recordset(due) as a(tenant_id text, timer_id uuid, followup_id uuid, thread_id uuid, run_id uuid,
      assistant_id uuid, graph_id text, priority smallint, metadata_below jsonb, metadata jsonb, request text)
  ), free as materialized (
    select t.tenant_id, t.thread_id, t.metadata
    from threads t
    where (t.tenant_id, t.thread_id) in (select tenant_id, thread_id from asked)
      and t.status in ('idle', 'error') and not t.ephemeral and t.config = '{}'
    order by t.tenant_id, t.thread_id
    for no key update skip locked
  ), claimed as materialized (
    select r.tenant_id, r.timer_id
    from timers r
    where (r.tenant_id, r.timer_id) in (
        select a.tenant_id, a.timer_id from asked a join free using (tenant_id, thread_id))
      and r.status = 'due' and r.due_at <= clock_timestamp()
    order by r.timer_id
    for update skip locked
  ), mine as materialized (
    select f.tenant_id, f.followup_id
    from followups f
    where (f.tenant_id, f.followup_id) in (
        select a.tenant_id, a.followup_id from asked a join claimed using (tenant_id, timer_id))
      and f.status = 'pending' and f.mode = 'remind' and f.schedule_id is null and not f.cancel_on_inbound
      and (f.not_after is null or f.not_after > clock_timestamp())
      and not exists (
        select 1
        from runs o
        where o.tenant_id = f.tenant_id and o.run_id = f.origin_run_id and o.status in ('pending', 'running'))
      and not exists (
        select 1
        from conversations c
        where c.tenant_id = f.tenant_id and c.conversation_id = f.conversation_id and c.unreachable_at is not null)
    order by f.followup_id
    for no key update skip locked
  ), done as (
    update timers r
    set status = 'fired', attempts = r.attempts + 1, updated_at = clock_timestamp()
    from asked a
    join mine using (tenant_id, followup_id)
    where r.tenant_id = a.tenant_id and r.timer_id = a.timer_id
  ), taken as (
    update threads t
    set status = 'busy', updated_at = clock_timestamp(),
      metadata = t.metadata || jsonb_build_object('graph_id', a.graph_id, 'assistant_id', a.assistant_id)
    from asked a
    join mine using (tenant_id, followup_id)
    where t.tenant_id = a.tenant_id and t.thread_id = a.thread_id
  ), told as (
    update followups f
    set status = 'running', tell_run_id = a.run_id, updated_at = clock_timestamp()
    from asked a
    join mine using (tenant_id, followup_id)
    where f.tenant_id = a.tenant_id and f.followup_id = a.followup_id
    returning f.tenant_id, f.followup_id, f.conversation_id
  ), accepted as (
    insert into runs (tenant_id, run_id, thread_id, assistant_id, graph_id, priority, head, multitask_strategy, metadata, request,
      resumes, pin, stays, conversation_id, followup_id, followup_part)
    select a.tenant_id, a.run_id, a.thread_id, a.assistant_id, a.graph_id,
      greatest(a.priority, (select best_priority from tenants p where p.tenant_id = a.tenant_id)), true, 'enqueue',
      a.metadata_below || free.metadata || a.metadata, convert_to(a.request, 'UTF8'), true, p.pin, p.stays, told.conversation_id,
      a.followup_id, 'tell'
    from asked a
    join told using (tenant_id, followup_id)
    join free using (tenant_id, thread_id)
    cross join lateral run_pin(a.tenant_id, a.assistant_id, a.thread_id, true) p
    returning tenant_id, thread_id, run_id, graph_id
  ), logged as (
    insert into events (tenant_id, thread_id, run_id, attempt, type, payload)
    select tenant_id, thread_id, run_id, 0, 'run.created', jsonb_build_object('graph_id', graph_id)
    from accepted
  )
  select a.timer_id from asked a join mine using (tenant_id, followup_id)
$tell$;
