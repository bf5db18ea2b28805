/**
 * What the lines of all archived runs have in common: a short run is mostly this. What was written with it can only be read with it, so it
 * never changes: another one is another form.
 */
export const dictionary =
  Buffer.from(String.raw`{"type":"subagent","childRunId":"","childDepth":1,"event":{"v":1,"sequenceNumber":
"type":"agent.model.fellback","from":"","to":"","previousModel":"","nextModel":"","reason":"rate-limit"},
"type":"tool.approval.requested","toolCallId":"call_","toolName":"","args":{"type":"run.suspended","reason":"approval","waitsFor":[{"kind":"approval","id":"
"type":"tool.approval.granted","toolCallId":"call_","by":"","type":"run.resumed","summary":"call_1 approved"},
"type":"run.recovered","fromCheckpoint":1,"previousWorker":"","type":"step.reset","stepNumber":1,"reason":"recovered"},
"type":"agent.error","code":"internal","message":"","type":"run.failed","error":{"code":"provider_unavailable","message":"","retryable":true,"correlationId":"","details":
J{"v":1,"t":"suspended","seq":1,"reason":"approval","at":"","asks":[{"index":0,"id":"call_","kind":"approval","requestedAt":"","expiresAt":""}]}
J{"v":1,"t":"decided","at":"","by":"","decisions":[{"kind":"approval","id":"call_","granted":true,"at":""}]}
J{"v":1,"t":"tool_intent","step":1,"indexes":[0],"at":""},"errorKind":"execution_failed","correctable":true,"trust":"external","sensitivity":"internal","sanitized":true,"flow":{"sources":[],"pieces":[
D{"id":"call_","kind":"approval","toolName":"","requestedAt":"","needed":1,"verdict":"granted","fingerprint":"","at":"","votes":[{"by":"","verdict":"granted","at":""}]}
"thread":"","executionId":"","threadId":"","parentRunId":"","depth":1,"metadata":{"batch":"","limits":{"maxSteps":16},"overrides":{"model":"","priority":0,"delayMs":0,"requestId":"","childCostMicrocents":0,"deadlineAt":"","resumes":1,"resumedEpoch":1,
A{"v":2,"runId":"01M","tenant":"default","definition":"","children":[],"firstTokens":{"1":"2026-","2":"2026-"}}
Rqueue runs
RcreatedAt 2026-
RstartedAt 2026-
RendedAt 2026-
RupdatedAt 2026-
RrequestId 
RtoolCalls 1
RtoolErrors 0
Runarchived 86400 120 0
Rtenant default
Rthread 
RcostMicrocents 46150
RworkedMs 429
Rworker 
RpreviousWorker 
Ractivity idle
Ragent support
Rdefinition 
Rkind agent.turn
Rpending []
RlastSequence 21
Rcrashes 0
Rblame 0
Rexcuses 0
Rsegment 0
Repoch 1
Rv 1
Rsteps 2
Rstatus completed
RrunId 01M
Rrequest {"agent":"support","input":"","queueTtlMs":604800000}
Rusage {"input":150,"output":212,"cached":0,"cacheWrite":0,"total":362,"byModel":{"gpt-5.2-mini":{"input":150,"output":212,"cached":0,"cacheWrite":0,"total":362,"attemptCount":2,"costMicrocents":46150}}}
Rattempts [{"attemptNumber":1,"step":1,"provider":"openai","model":"gpt-5.2-mini","outcome":"succeeded","requestId":":step:1","providerRequestId":"chatcmpl-","usage":{"input":60,"output":12,"cached":0,"cacheWrite":0,"total":72},"costMicrocents":3900,"priced":true,"latencyMs":45,"finishReason":"tool_use"}]
Rresult {"text":" ","finishReason":"stop"}
J{"v":1,"t":"model_response","step":1,"message":{"role":"assistant","parts":[{"type":"tool_call","id":"call_1","name":"","args":"{\"
\"}"}]},"finishReason":"tool_use","usage":{"input":60,"output":12,"cached":0,"cacheWrite":0,"total":72},"attempts":[{"attemptNumber":1,"step":1,"provider":"openai","model":"gpt-5.2-mini","requestId":":step:1","providerRequestId":"chatcmpl-","usage":{"input":60,"output":12,"cached":0,"cacheWrite":0,"total":72},"costMicrocents":3900,"priced":true,"latencyMs":45,"outcome":"succeeded","finishReason":"tool_use"}],"provider":"openai","model":"gpt-5.2-mini"}
J{"v":1,"t":"tool_result","step":1,"index":0,"toolCallId":"call_1","toolName":"","content":"{\"
\"}"}
J{"v":1,"t":"model_response","step":2,"message":{"role":"assistant","parts":[{"type":"text","text":" "}]},"finishReason":"stop",
J{"v":1,"t":"closed","status":"completed"}
E{"v":1,"sequenceNumber":1,"runId":"01M","agentId":"support","timestamp":"2026-","type":"run.queued","kind":"agent.turn","queuedAt":"2026-"}
E{"v":1,"sequenceNumber":2,"timestamp":"2026-","runId":"01M","agentId":"support","jobAttempt":1,"type":"run.started","kind":"agent.turn","attempt":1,"model":"gpt-5.2-mini"}
E{"v":1,"sequenceNumber":3,"timestamp":"2026-","runId":"01M","agentId":"support","jobAttempt":1,"type":"agent.start"}
E{"v":1,"sequenceNumber":4,"timestamp":"2026-","runId":"01M","agentId":"support","jobAttempt":1,"type":"step.start","stepNumber":1,"model":"gpt-5.2-mini","modelSource":"agent"}
E{"v":1,"sequenceNumber":5,"timestamp":"2026-","runId":"01M","agentId":"support","jobAttempt":1,"type":"tool.call.start","toolCallId":"call_1","toolName":""}
E{"v":1,"sequenceNumber":6,"timestamp":"2026-","runId":"01M","agentId":"support","jobAttempt":1,"type":"llm.call","model":"gpt-5.2-mini","provider":"openai","requestId":":step:1","providerRequestId":"chatcmpl-","attemptNumber":1,"outcome":"succeeded","tokensIn":60,"tokensOut":12,"latencyMs":45,"finishReason":"tool_use"}
E{"v":1,"sequenceNumber":7,"timestamp":"2026-","runId":"01M","agentId":"support","jobAttempt":1,"type":"cost.updated","model":"gpt-5.2-mini","inputTokens":60,"outputTokens":12,"costMicrocents":3900,"cumulativeCostMicrocents":3900,"attemptNumber":1,"priced":true,"usageReported":true}
E{"v":1,"sequenceNumber":8,"timestamp":"2026-","runId":"01M","agentId":"support","jobAttempt":1,"type":"tool.call.end","toolCallId":"call_1","finalArgs":{"
E{"v":1,"sequenceNumber":9,"timestamp":"2026-","runId":"01M","agentId":"support","jobAttempt":1,"type":"tool.execute.start","toolCallId":"call_1","toolName":"","args":{"","summary":"({\"\"})","attemptNumber":1}
E{"v":1,"sequenceNumber":10,"timestamp":"2026-","runId":"01M","agentId":"support","jobAttempt":1,"type":"tool.execute.end","success":true,"outputSummary":"{\"\"}","toolCallId":"call_1","toolName":"","durationMs":304}
E{"v":1,"sequenceNumber":11,"timestamp":"2026-","runId":"01M","agentId":"support","jobAttempt":1,"type":"step.end","stepNumber":1,"usage":{"input":60,"output":12,"cached":0,"cacheWrite":0,"total":72},"finishReason":"tool_use"}
E{"v":1,"sequenceNumber":16,"timestamp":"2026-","runId":"01M","agentId":"support","jobAttempt":1,"type":"text.complete","text":" "}
E{"v":1,"sequenceNumber":18,"timestamp":"2026-","runId":"01M","agentId":"support","jobAttempt":1,"type":"usage.recorded","usage":{"input":150,"output":212,"cached":0,"cacheWrite":0,"total":362,"byModel":{"gpt-5.2-mini":{"input":150,"output":212,"cached":0,"cacheWrite":0,"total":362,"attemptCount":2,"costMicrocents":46150}}},"costMicrocents":46150,"durationMs":435,"steps":2,"toolCalls":1,"promptChars":43,"mcpServers":0,"capabilities":0}
E{"v":1,"sequenceNumber":19,"timestamp":"2026-","runId":"01M","agentId":"support","jobAttempt":1,"type":"agent.response","text":" "}
E{"v":1,"sequenceNumber":20,"timestamp":"2026-","runId":"01M","agentId":"support","jobAttempt":1,"type":"agent.end","output":" ","status":"completed"}
E{"v":1,"sequenceNumber":21,"timestamp":"2026-","runId":"01M","agentId":"support","jobAttempt":1,"type":"run.completed","status":"completed","result":{"text":" ","finishReason":"stop"},"usage":{"input":150,"output":212,"cached":0,"cacheWrite":0,"total":362,"byModel":{"gpt-5.2-mini":{"input":150,"output":212,"cached":0,"cacheWrite":0,"total":362,"attemptCount":2,"costMicrocents":46150}}},"costMicrocents":46150,"durationMs":435,"steps":2}
`);
