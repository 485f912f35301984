-- Which version of the code may execute a run, as its assistant says: asked when the run is made, and again when that is changed.
-- A lock per assistant makes the two come one after the other: whoever makes runs shares it until they are there, whoever changes
-- the pin has it alone. The functions are volatile, so that what they read after the lock is as new as that.
create function pin_lock(tenant text, assistant uuid) returns bigint
language sql immutable parallel safe as $$ select hashtextextended(tenant || ' ' || assistant::text, 7264861091) $$;

-- What the assistant says, and goes on saying until the transaction is over.
create function pin_said(tenant text, assistant uuid) returns text
language plpgsql volatile as $said$
begin
  perform pg_advisory_xact_lock_shared(pin_lock(tenant, assistant));
  return coalesce(
    (select a.pin from assistants a where a.tenant_id = tenant and a.assistant_id = assistant), 'latest');
end
$said$;

-- The version that the runs of a thread were executed with last; empty: none was yet.
create function last_version(tenant text, thread uuid) returns text
language sql stable as $$
  select coalesce((
    select r.agent_version
    from runs r
    where r.tenant_id = tenant and r.thread_id = thread and r.agent_version is not null
    order by r.seq desc
    limit 1), '')
$$;

-- Of a new run: `goes_on` says that it goes on with what an earlier run of its thread has left, as an answer does.
create function run_pin(tenant text, assistant uuid, thread uuid, goes_on boolean, out pin text, out stays boolean)
language plpgsql volatile as $pin$
declare
  said text := pin_said(tenant, assistant);
begin
  stays := said = 'own';
  pin := case when said = 'latest' then '' when not stays then said when goes_on then last_version(tenant, thread) else '' end;
end
$pin$;

create function is_off_pin(pin text, stays boolean, said text) returns boolean
language sql immutable parallel safe as $$
  select stays <> (said = 'own') or said <> 'own' and pin <> case when said = 'latest' then '' else said end
$$;

-- Threads with unfinished runs that are not as their assistant says. Two branches, so that each finds its partial index.
create function off_pin(tenant text, assistant uuid, said text, after uuid, most int) returns table (thread_id uuid)
language sql stable as $$
  (select r.thread_id
    from runs r
    where r.tenant_id = tenant and r.status = 'pending' and r.thread_id > after
      and r.assistant_id = assistant and r.kind = 'run' and is_off_pin(r.pin, r.stays, said)
    order by r.thread_id
    limit most)
  union
  (select r.thread_id
    from runs r
    where r.tenant_id = tenant and r.status = 'running' and r.thread_id > after
      and r.assistant_id = assistant and r.kind = 'run' and is_off_pin(r.pin, r.stays, said)
    order by r.thread_id
    limit most)
  order by 1
  limit most
$$;

-- Brings the unfinished runs of the next threads to what their assistant says; `held`: so many threads that somebody holds just now
-- are left as they are. `last` is where to go on; null: there are no more.
create function follow_pin(
  tenant text, assistant uuid, after uuid, most int, out moved int, out held int, out last uuid)
language plpgsql volatile as $follow$
#variable_conflict use_column
declare
  said text := pin_said(tenant, assistant);
  found uuid[];
  free uuid[];
begin
  found := array(select o.thread_id from off_pin(tenant, assistant, said, after, most) o);
  free := array(
    select t.thread_id
    from threads t
    where t.tenant_id = tenant and t.thread_id = any(found)
    order by t.thread_id
    for no key update skip locked);
  with locked as materialized (
    select r.tenant_id, r.run_id
    from runs r
    where r.tenant_id = tenant and r.thread_id = any(free) and r.status in ('pending', 'running')
      and r.assistant_id = assistant and r.kind = 'run' and is_off_pin(r.pin, r.stays, said)
    order by r.run_id
    for no key update
  )
  update runs r
  set stays = said = 'own',
    pin = case
      when said = 'latest' then ''
      when said <> 'own' then said
      when r.attempt > 0 then coalesce(r.agent_version, '')
      when r.resumes then last_version(r.tenant_id, r.thread_id)
      else ''
    end
  from locked
  where r.tenant_id = locked.tenant_id and r.run_id = locked.run_id;
  get diagnostics moved = row_count;
  held := cardinality(found) - cardinality(free);
  last := case when cardinality(found) = most then found[most] end;
end
$follow$;

-- Whether all unfinished runs are as their assistant says.
create function pin_followed(tenant text, assistant uuid) returns boolean
language plpgsql volatile as $followed$
declare
  said text := pin_said(tenant, assistant);
begin
  return not exists (
    select 1 from off_pin(tenant, assistant, said, '00000000-0000-0000-0000-000000000000', 1));
end
$followed$;
