import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, postYaml, type Job, type Plan, type Session } from '../api';
import { count, duration } from '../format';
import { useSoon, words } from '../hooks';
import { Card, Problem } from '../parts';
import { reasonWords } from '../words';

interface Fields { run: string; name: string; devices: string; mode: string; logical: string; priority: string }
const empty: Fields = { run: '', name: '', devices: '1..4', mode: 'consistent', logical: '', priority: '' };

// A text in YAML: JSON's quotes are valid there.
const quoted = (text: string) => JSON.stringify(text);

function yamlOf(fields: Fields): string {
  const lines = [`run: ${quoted(fields.run)}`];
  if (fields.name) lines.push(`name: ${quoted(fields.name)}`);
  if (fields.devices) lines.push(`devices: ${/^[0-9]+(\.\.[0-9]+)?$/.test(fields.devices) ? fields.devices : quoted(fields.devices)}`);
  if (fields.mode !== 'consistent') lines.push(`mode: ${fields.mode}`);
  if (fields.logical) lines.push(`logical_workers: ${fields.logical}`);
  if (fields.priority) lines.push(`priority: ${fields.priority}`);
  return `${lines.join('\n')}\n`;
}

function PlanView({ plan, problem }: { plan: Plan | null; problem: string }) {
  if (problem) return <Problem text={problem} />;
  if (!plan) return <p class="hint">Fill in the command: what would happen appears here.</p>;
  return (
    <div class="plan">
      <p><strong>{plan.placed ? `Would start now on ${count(plan.devices, 'device')}.`
        : `Would have to wait: ${plan.text || reasonWords(plan.reason)}.`}</strong></p>
      <ul>
        {!plan.placed && plan.start_in_s !== null ? <li>starts in about {duration(plan.start_in_s)}</li> : null}
        {plan.eta_s !== null && plan.eta_s !== undefined ? <li>ends in about {duration(plan.eta_s)}{plan.guessed ? '; its length is a guess, because nothing like it has run yet' : ''}</li> : <li>its end cannot be predicted: nothing like it has run yet</li>}
        {plan.changes.map((one) => <li key={one.job}>{one.job}: from {one.from} to {count(one.to, 'device')} ({reasonWords(one.reason)})</li>)}
        {plan.others.changed ? <li>{count(plan.others.changed, 'job')} of other tenants would change</li> : null}
        {plan.changes.length === 0 && !plan.others.changed ? <li>no other job would change</li> : null}
      </ul>
    </div>
  );
}

export function SubmitPage({ session }: { session: Session }) {
  const [fields, setFields] = useState<Fields>(empty);
  const [yaml, setYaml] = useState(yamlOf(empty));
  const [plan, setPlan] = useState<Plan | null>(null);
  const [planProblem, setPlanProblem] = useState('');
  const [problem, setProblem] = useState('');
  const turn = useRef(0);
  const ready = !/^run: ""$/m.test(yaml);

  const ask = useSoon(() => {
    const own = ++turn.current;
    if (!ready) {
      setPlan(null);
      setPlanProblem('');
      return;
    }
    postYaml<Plan>('/api/v1/plan', yaml).then((got) => {
      if (own !== turn.current) return;
      setPlan(got);
      setPlanProblem('');
    }).catch((error: unknown) => {
      if (own !== turn.current) return;
      setPlanProblem(error instanceof ApiError && error.status === 429 ? 'Too many plans at once; change something to try again.' : words(error));
    });
  }, 500);
  useEffect(ask, [yaml]);

  const set = (name: keyof Fields) => (event: { currentTarget: { value: string } }) => {
    const next = { ...fields, [name]: event.currentTarget.value };
    setFields(next);
    setYaml(yamlOf(next));
  };
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      const job = await postYaml<Job>('/api/v1/jobs', yaml);
      location.hash = `#/jobs/${job.id}`;
    } catch (error) {
      setProblem(words(error));
    }
  };
  return (
    <div class="page" data-loaded="true">
      <h1>Submit <small>as {session.name}</small></h1>
      <div class="two">
        <Card title="Job">
          <form class="submit" onSubmit={(event) => { void submit(event); }}>
            <label>Command<input name="run" required value={fields.run} placeholder="python3 /home/me/train.py --epochs 3" autocomplete="off" onInput={set('run')} /></label>
            <label>Name<input name="name" value={fields.name} autocomplete="off" onInput={set('name')} /></label>
            <label>Devices<input name="devices" value={fields.devices} placeholder="2..8" autocomplete="off" onInput={set('devices')} /></label>
            <label>Mode<select name="mode" value={fields.mode} onChange={set('mode')}>
              <option value="consistent">consistent: the same bits on any devices</option>
              <option value="adaptive">adaptive: the batch may change</option>
              <option value="rigid">rigid: always as many devices</option>
            </select></label>
            <label>Logical workers<input name="logical" inputMode="numeric" value={fields.logical} autocomplete="off" onInput={set('logical')} /></label>
            <label>Priority<input name="priority" inputMode="numeric" value={fields.priority} autocomplete="off" onInput={set('priority')} /></label>
            <label>As YAML, which is what is submitted<textarea name="yaml" rows={8} spellcheck={false} value={yaml}
              onInput={(event) => setYaml(event.currentTarget.value)} /></label>
            <button type="submit" class="main">Submit</button>
            <Problem text={problem} />
          </form>
        </Card>
        <Card title="What would happen"><div role="status"><PlanView plan={plan} problem={planProblem} /></div></Card>
      </div>
    </div>
  );
}
