-- Who wants to be told that a run is over: a URL, for runs that have one.
alter table runs add column webhook text;

-- However it ends (settled, cancelled, given up): what is to be told is true together with it. A timer, since the telling reads what the
-- run came to.
create function run_webhook_due() returns trigger
language plpgsql as $due$
begin
  perform set_due_timer(new.tenant_id, 'run.webhook', new.run_id);
  return null;
end
$due$;

create trigger run_webhook_due after update of status on runs
  for each row
  when (new.webhook is not null and new.status <> old.status and new.status not in ('pending', 'running'))
  execute function run_webhook_due();
