// A scripted model behind the Anthropic Messages API, on loopback: it answers what the script says, and keeps what it
// was asked. It knows as much of the API as Claude Code needs to hold a conversation.
import http from 'node:http';

// `turns[n]` is the model's n-th answer: a list of {text} or {tool, input}. `observe` is called when a request of the
// conversation arrives, before it is answered; what it returns is kept with the request.
export async function startModel(turns, observe) {
  const requests = [];
  let answers = 0;

  const server = http.createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { pathname } = new URL(request.url, 'http://stub');
    if (request.method !== 'POST' || !pathname.startsWith('/v1/messages')) {
      return json(response, request.method === 'POST' ? 404 : 200, {});
    }
    const body = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    if (pathname === '/v1/messages/count_tokens') return json(response, 200, { input_tokens: 1 });

    // Requests without tools are the client's own side questions, such as a title for the session.
    let turn = [{ text: 'A title' }];
    if (body.tools?.length > 0) {
      const number = body.messages.filter((message) => message.role === 'assistant').length;
      requests.push({ number, body, observed: observe?.() });
      turn = turns[number] ?? [{ text: 'The script has ended.' }];
      turn = turn.map((block, index) => ({ ...block, id: callId(number, index) }));
    }
    answers += 1;
    const message = {
      id: `msg_${answers}`,
      type: 'message',
      role: 'assistant',
      model: body.model,
      content: turn.map(block),
      stop_reason: turn.some(({ tool }) => tool) ? 'tool_use' : 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: 1, output_tokens: 1 },
    };
    if (body.stream) stream(response, message);
    else json(response, 200, message);
  });

  await new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    requests,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

// The id of a tool call: the n-th answer's block at `index`.
export function callId(number, index) {
  return `toolu_${number}_${index}`;
}

function block({ text, tool, input, id }) {
  return tool ? { type: 'tool_use', id, name: tool, input } : { type: 'text', text };
}

function json(response, status, body) {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(body));
}

function stream(response, { content, stop_reason, ...message }) {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (type, fields) => response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`);
  send('message_start', { message: { ...message, content: [], stop_reason: null } });
  content.forEach((whole, index) => {
    const call = whole.type === 'tool_use';
    send('content_block_start', { index, content_block: call ? { ...whole, input: {} } : { ...whole, text: '' } });
    send('content_block_delta', {
      index,
      delta: call
        ? { type: 'input_json_delta', partial_json: JSON.stringify(whole.input) }
        : { type: 'text_delta', text: whole.text },
    });
    send('content_block_stop', { index });
  });
  send('message_delta', { delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 1 } });
  send('message_stop', {});
  response.end();
}
