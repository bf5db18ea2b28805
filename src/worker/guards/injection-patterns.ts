import { fold } from './folded-text.ts';

/**
 * Words of texts that instruct a model instead of informing it. `words` for scripts with spaces between words,
 * `letters` for those without, `signs` for a regular expression.
 *
 * In `words` and `letters`: `(a|b)` one of these, `~` any end of a word, `?` after a group that may be missing, a space for
 * what stands between two words, ` + ` for at most two words more, ` .. ` for up to 32 characters within one sentence (16
 * in `letters`). All is compared in the form that `fold` gives: without case, accents, look-alikes and invisible characters.
 */
export interface InjectionEntry {
  /** What a finding is called. Several entries may share a name: they are the same thing in several languages. */
  readonly name: string;
  /** Why text like this is no mere data. */
  readonly reason: string;
  readonly words?: readonly string[];
  readonly letters?: readonly string[];
  readonly signs?: readonly string[];
}

const instructions =
  '(instruction~|prompt~|rule~|directive~|direction~|command~|guideline~|orders|constraint~|programming|training|messages)';
const model =
  '(ai|a.i.|llm~|language model~|ai model~|ai assistant~|ai agent~|chatbot~|claude|chatgpt|gpt|gemini|copilot)';

export const injectionEntries: readonly InjectionEntry[] = [
  {
    name: 'ignore_instructions',
    reason: 'The most common beginning of an attack: what came before shall not count any more.',
    words: [
      `(ignore|disregard|forget|discard|overlook|do not follow|don't follow|stop following|do not obey|pay no attention to|neglect) .. (previous|prior|above|earlier|preceding|foregoing|original|initial|your|system|former|past) + ${instructions}`,
      `(ignore|disregard|forget|override|bypass) (all|any|every|these|those|the|my) (of )?(the |your )?(other )?(instruction~|directive~)`,
      `(ignore|disregard|forget) (everything|anything|all|whatever) (that )?(you|i|we|was|has been|previously) (were|was|have|has|been|told|said|wrote|written|know|read|learned|learnt|stated|instructed)`,
      `(ignore|disregard|forget) (everything|all) (of the |the )?(above|before this|prior to this|previous)`,
      `(ignore|disregard|forget) (the |your )?system (prompt|message|instruction~)`,
      `(override|bypass|supersede|cancel|void|replace) .. (all previous|all prior|your|any previous|any prior) .. (instruction~|prompt~|directive~|guideline~|programming|training)`,
      `(previous|prior|above|earlier|original|old) (instruction~|directive~|prompt~) (are|is|were|have been|has been|should be|must be) (now )?(void|null|invalid|cancelled|canceled|obsolete|superseded|revoked|replaced|ignored|disregarded|no longer|outdated|overridden)`,
    ],
  },
  {
    name: 'ignore_instructions',
    reason: 'The same in German, French, Spanish, Italian, Portuguese and Dutch.',
    words: [
      '(ignorier~|vergiss|vergesst|vergessen sie|missacht~|beachte nicht|verwirf|verwerfen sie) .. (vorherig~|bisherig~|vorig~|obig~|fruher~|vorangegangen~|vorhergehend~|urspr~|bevor~|zuvor|alle|deine|ihre|samtliche) .. (anweisung~|instruktion~|regeln|befehl~|vorgabe~|prompt~|systemprompt~|richtlinie~|nachrichten)',
      '(ignorier~|vergiss|vergesst|vergessen sie) (alles|alle anweisungen|die anweisungen|samtliche anweisungen)',
      '(ignore~|oublie~|ne tiens pas compte|ne tenez pas compte|neglige~|fais abstraction|faites abstraction) .. (instruction~|consigne~|directive~|regle~|ordres|messages|invite~) .. (precedent~|anterieur~|ci-dessus|initial~|au-dessus|recu~)',
      '(ignore~|oublie~) (tout ce|toutes (les|tes|vos) (instruction~|consigne~|regle~|directive~))',
      '(ignora~|olvida~|descarta~|omite|omitan|haz caso omiso|no hagas caso|no sigas|pasa por alto) .. (instruccion~|indicacion~|orden~|regla~|directriz|directrices|mensajes|prompt~) .. (anterior~|previa~|previo~|arriba|inicial~|original~)',
      '(ignora~|olvida~) .. (anterior~|previa~|previo~|todas|tus) .. (instruccion~|indicacion~|ordenes|reglas|directrices|mensajes)',
      '(ignora~|dimentica~|trascura~|non seguire|scarta~|tralascia~) .. (istruzion~|indicazion~|ordin~|regol~|direttiv~|comand~|messaggi|prompt) .. (precedent~|sopra|inizial~|originar~|anterior~|ricevut~)',
      '(ignora~|dimentica~) .. (precedent~|tutte le|tue|anterior~) .. (istruzion~|indicazion~|ordini|regol~|direttiv~)',
      '(ignore~|esqueca~|desconsidere~|descarte~|nao siga~) .. (instruc~|instrucoes|orden~|ordens|regra~|diretriz~|mensagens|prompt~|comando~) .. (anterior~|previa~|previo~|acima|inicia~|origina~)',
      '(ignore~|esqueca~|desconsidere~) .. (todas as|suas|anteriores) .. (instrucoes|ordens|regras|diretrizes)',
      '(negeer|vergeet|sla over) .. (vorige|eerdere|bovenstaande|voorgaande|alle) .. (instructies|opdrachten|regels|aanwijzingen|prompt~)',
    ],
  },
  {
    name: 'ignore_instructions',
    reason: 'The same in Russian, Ukrainian, Polish, Turkish, Arabic, Hindi, Vietnamese and Indonesian.',
    words: [
      '(игнорируй~|проигнорируй~|забудь~|отбрось~|не обращай~ внимания|не следуй~) .. (предыдущ~|прежн~|прошл~|выше~|все|всё|свои|исходн~) .. (инструкц~|указани~|правил~|команд~|приказ~|сообщения|промпт~)',
      '(ігноруй~|проігноруй~|забудь~) .. (попередн~|усі|всі|вище~) .. (інструкц~|вказівк~|правил~|команд~)',
      '(zignoruj~|ignoruj~|zapomnij~|pomin~) .. (poprzedni~|wczesniejsz~|powyzsz~|wszystki~) .. (instrukcj~|polecen~|zasad~|wytyczn~|regul~)',
      '(onceki|yukaridaki|butun|tum) .. (talimat~|komut~|kural~|yonerge~) .. (yok say~|unut~|gormezden gel~|dikkate alma~)',
      '(تجاهل~|انس|انسى|اهمل) .. (التعليمات|الاوامر|تعليمات|القواعد|التوجيهات) .. (السابق~|اعلاه|الاصلي~|التي)',
      '(تجاهل~|انس|انسى) (جميع|كل|كافة) (التعليمات|الاوامر|القواعد)',
      '(पिछले|पिछली|पहले|उपरोक्त|सभी|पूर्व) .. (निर्देश~|आदेश~|नियम~) .. (अनदेखा|नजरअंदाज|नज़रअंदाज़|भूल|उपेक्षा)',
      '(bo qua|quen|phot lo) .. (huong dan|chi thi|lenh|quy tac) .. (truoc|tren|ban dau)',
      '(abaikan|lupakan) .. (instruksi|perintah|aturan|petunjuk) .. (sebelumnya|di atas|awal)',
    ],
  },
  {
    name: 'ignore_instructions',
    reason: 'The same in Japanese, Chinese and Korean, which put no spaces between words or put the verb last.',
    letters: [
      '(以前|これまで|上記|前|先|すべて|全て|元|いままで|今まで) .. (指示|命令|ルール|指令|プロンプト|制約|規則) .. (無視|忘れ|従わな|破棄|取り消)',
      '(忽略|无视|無視|忽視|忘记|忘記|忘掉|不要理会|不要遵守|不必遵守|抛弃|跳过) .. (之前|以上|上面|先前|所有|前面|此前|原来|上述|一切|你的|您的|全部) .. (指令|指示|说明|說明|规则|規則|提示|命令|要求|设定)',
      '(이전|위의|앞의|모든|기존|지금까지) .. (지시|명령|지침|규칙|프롬프트) .. (무시|잊|따르지)',
    ],
  },
  {
    name: 'new_instructions',
    reason: 'Data that claims to be the task from here on.',
    words: [
      '(your|the) new (task|goal|objective|role|instruction~|mission|purpose|identity|directive~|primary objective) (is|are|now|will be|shall be|follows|to)',
      'here are (your|the) (new|updated|real|actual|true) instruction~',
      '(follow|obey|execute|perform) (these|the following|my|only these|only my) (new )?(instruction~|order~|command~|directive~) (instead|only|immediately|without|now|from now on|to the letter)',
      'from now on .. (you are|you (will|must|shall|should) (act|be|respond|obey|answer|ignore|reply|behave|only|always|never|follow|speak|call|send)|respond|act as|behave|pretend|ignore|obey|answer only|reply only)',
      '(your|the) (real|actual|true|only) (task|instruction~|goal|purpose|mission) (is|are)',
      '(instead of|rather than) (answering|summari~|translating|following|doing) .. (you (must|should|will|have to)|please|do the following|call|send|output|say|write|reply)',
    ],
  },
  {
    name: 'new_instructions',
    reason: 'The same in other languages.',
    words: [
      '(ab jetzt|ab sofort|von nun an|von jetzt an) .. (bist du|sind sie|antwortest du|musst du|mussen sie|wirst du|du bist|sollst du|gehorchst)',
      '(deine|ihre) (neue|eigentliche|wahre) (aufgabe|anweisung~|rolle) (ist|lautet|sind|lauten)',
      '(a partir de maintenant|desormais|a compter de maintenant) .. (tu es|vous etes|tu dois|vous devez|reponds|repondez|agis|agissez)',
      '(ta|votre) (nouvelle|veritable|vraie) (tache|mission|instruction~|consigne~) (est|consiste)',
      '(a partir de ahora|desde ahora|de ahora en adelante) .. (eres|debes|responde|actua|seras|tienes que|debera~|usted es)',
      '(tu|su) (nueva|verdadera) (tarea|mision|instruccion~|funcion) (es|consiste)',
      "(d'ora in poi|da ora in poi|da adesso in poi|da questo momento) .. (sei|devi|rispondi|agisci|sarai|dovrai)",
      '(a partir de agora|de agora em diante|daqui em diante) .. (voce e|voce deve|responda|aja|voce sera|tu es)',
      '(с этого момента|отныне|с этой минуты|теперь) .. (ты являешься|ты должен|ты долж~|ты будешь|вы должны|отвечай|действуй)',
      '(od teraz|od tej chwili) .. (jestes|musisz|odpowiadaj|bedziesz)',
      '(bundan sonra|su andan itibaren) .. (sen|olarak|cevap ver|davran)',
    ],
    letters: [
      '(今から|これから|これ以降|現在から) .. (あなたは|お前は|君は) .. (です|なり|として|必要|振る舞|答え)',
      '(新しい|本当の) (指示|タスク|任務|命令) (は|を)',
      '(从现在开始|从现在起|從現在開始|從現在起|现在起|接下来) .. (你是|你将|你要|你必须|你只能|您是|您将|你會|你必須)',
      '(你的|您的) (新任务|新指令|真正任务|真正的任务|新的任务|新任務|新角色) (是|为)',
      '(지금부터|이제부터) .. (너는|당신은|넌)',
    ],
  },
  {
    name: 'role_change',
    reason: 'Tries to give the model another identity, one without its rules.',
    words: [
      'you are now (dan|an? (ai|unrestricted|evil|different|new|uncensored|jailbroken|malicious|pirate|hacker|rogue)|in (developer|dan|god|debug|admin|unrestricted|jailbreak) mode|unrestricted|jailbroken|uncensored|free from|free of|operating as|acting as|going to (act|be|pretend))',
      'you are no longer (an? )?(ai|assistant|bound|language model|chatgpt|claude|restricted|limited|required to)',
      '(pretend|imagine|assume) (that )?you (are|have) (not |no |now )?(an? )?(ai|unrestricted|evil|dan|hacker|root|admin~|human|bound|rules|restriction~|limits|limitations|filters|the system|the developer)',
      '(act|behave|respond|answer) as (if you |though you |an? |the )?(unrestricted|uncensored|jailbroken|dan|evil|rogue|had no|have no|were not|are not|system administrator|root user)',
      '(act|roleplay|role-play|play) (as|the role of) .. (no|without) .. (restriction~|rules|filter~|limits|limitation~|ethic~|guideline~)',
    ],
  },
  {
    name: 'jailbreak',
    reason: 'Wording of published attacks on the rules that a model was trained with.',
    words: [
      'do anything now',
      '(dan|god|jailbreak|jailbroken|unrestricted|uncensored) mode (is )?(now )?(enabled|activated|on|engaged|unlocked|active)',
      '(enter|enable|activate|switch to|turn on) (dan|god|jailbreak|unrestricted|uncensored) mode',
      '(override|bypass|disable|circumvent|turn off|ignore|violate|drop|suspend) .. your .. (safety|security|content|ethical|moral|guardrail~|restriction~|filter~|safeguard~|polic~|limitation~)',
      '(override|bypass|disable|circumvent) .. (guardrails|safeguards|safety (filter~|guideline~|protocol~|training))',
      'no (ethical|moral) (restriction~|guideline~|limit~|filter~|boundaries|constraint~|rules)',
      'without (any )?(ethical|moral|safety) (restriction~|guideline~|limit~|filter~|concern~|consideration~)',
    ],
  },
  {
    name: 'fake_authority',
    reason: 'Claims to be the operator, or to have its permission.',
    words: [
      'the (user|operator|admin|administrator|developer|owner|human) has (already|explicitly|previously|fully) (approved|authori~|consented|confirmed|agreed|permitted|given (you )?(permission|consent)|granted (you )?(permission|access))',
      'i am (your|the) (developer|creator|administrator|admin|system administrator|system admin|owner|operator)',
      'this is (an? )?(official|authorized|authorised|urgent|direct) (message|instruction~|directive|order|request|override) from (the )?(system|developer~|admin~|operator|openai|anthropic|security team|user)',
      '(system|developer|admin|administrator|root|security) override (code|command|activated|engaged|initiated|accepted|authorized|authorised)',
    ],
    signs: [
      // A heading as systems write them. Only with something that makes it one: log lines begin with such words, too.
      '(?:^|\\n) ?[#*<>\\[({=-]{1,6} ?(?:new |updated |important |hidden |begin |start of |end of )?(?:system|developer|admin) (?:prompt|message|instructions?|override|directive)',
      '(?:^|\\n) ?(?:new |updated |important |hidden )?(?:system|developer) (?:prompt|instructions?|override) ?:',
    ],
  },
  {
    name: 'addressed_to_model',
    reason: 'Data has no reader in particular: this one is meant for the model alone.',
    words: [
      `(attention|dear|note to|notice to|message to|message for|instruction~ to|instruction~ for|order~ for|important for|reminder for|memo to) (the |any |all |an |every )?${model}`,
      `if you are (the |any |an? )?(large )?${model}`,
      `(any|every|all|the) ${model} (that |which |who )?(is |are )?(reading|reads|read|processing|processes|process|parsing|summari~|viewing|analyzing|analysing) this`,
      '(an )?(ai|llm|assistant|agent|model) (reading|processing|summari~|parsing|viewing) this (must|should|has to|is required|needs to|page|document|text|email|message|file)',
    ],
  },
  {
    name: 'conceal',
    reason: 'Wants something to happen that people do not see.',
    words: [
      "(do not|don't|never|must not) (tell|inform|notify|alert|warn) (this to |about this to )?(the |any |your )?(user~|human~|operator~|owner)",
      "(do not|don't|never|must not) (mention|reveal|disclose|show|report|say|tell) (this|these|it|that|any of this|anything about this|the above|these instruction~|that you) .. (user~|anyone|anybody|human~|operator~|nobody)",
      "(do not|don't|never) (mention|reveal|disclose|repeat) (this|these|the above|that) (instruction~|message|prompt|note|directive~|text)",
      'without (telling|informing|alerting|letting) (the |your |any )?(user~|human~|operator~)',
      '(keep|hide) (this|these|it) (instruction~ )?(a )?(secret|hidden|confidential) from (the )?(user~|human~|operator~|anyone)',
      '(sag~|verrat~|erzahl~|teil~) .. (dem|der|den) (benutzer~|nutzer~|anwender~) .. (nicht~|nichts|niemals)',
      '(erwahn~|nenn~) (das|dies|es|diese anweisung~) .. (nicht|niemals) .. (benutzer~|nutzer~|anwender~)',
      'ne (le |la |les |lui )?(dis|dites|parle|parlez|mentionne|mentionnez|revele|revelez|informe|informez) (pas|jamais|rien) .. (utilisateur~)',
      '(no|nunca) (le |se lo |lo |les )?(digas|diga|menciones|mencione|informes|informe|reveles|revele) .. (usuario~)',
      '(non|mai) (dire|dirlo|menzionare|menzionarlo|informare|rivelare|rivelarlo) .. (utente|utenti)',
      '(nao|nunca) (diga|conte|mencione|informe|revele|avise) .. (usuario~)',
      '(не|никогда не) (говори~|сообщай~|рассказывай~|упоминай~|показывай~) .. (пользовател~)',
    ],
    letters: [
      'ユーザー?.. (言わない|伝えない|知らせない|教えない|言うな|伝えるな|知られない|気づかれ|気付かれ)',
      '(不要|别|不得|不能|切勿|不可|不准) .. (告诉|通知|告知|透露|提及|让|告訴) .. (用户|使用者|用戶)',
      '사용자.. (말하지|알리지|알려주지|언급하지)',
    ],
  },
  {
    name: 'prompt_leak',
    reason: 'Asks for the instructions of the operator.',
    words: [
      `(reveal|show|print|output|repeat|display|tell me|give me|leak|expose|share|disclose|dump|write out|send|recite|return|paste) .. your .. (system prompt|system message|system instruction~|prompt|initial instruction~|hidden instruction~|original instruction~|secret instruction~|developer message|instruction~ verbatim|full instruction~)`,
      '(reveal|leak|expose|disclose|exfiltrate|recite) .. (the system prompt|the hidden prompt|the initial prompt|the developer message|system instruction~)',
      'what (is|are|was|were) your (system prompt|initial prompt|hidden prompt|original instruction~|initial instruction~|system instruction~)',
      'repeat (everything|all|the words|the text|all the text|all the words) .. above',
      '(zeig~|gib~|verrat~|nenn~|wiederhol~|drucke~) .. (dein~|ihr~) .. (system-?prompt~|systemanweisung~|anweisungen|systemnachricht)',
      '(montre~|affiche~|revele~|repete~|donne~) .. (ton|tes|votre|vos|le) .. (prompt systeme|invite systeme|instructions systeme|instructions initiales)',
      '(muestra~|revela~|imprime~|repite~|dime|ensena~) .. (tu|tus|el|las) .. (prompt del sistema|instrucciones iniciales|instrucciones del sistema|prompt inicial)',
      '(mostra~|rivela~|ripeti~|stampa~|dimmi) .. (tuo|tue|il|le) .. (prompt di sistema|istruzioni iniziali|istruzioni di sistema)',
      '(mostre~|revele~|repita~|imprima~|diga~) .. (seu|suas|o|as) .. (prompt do sistema|instrucoes iniciais|instrucoes do sistema)',
      '(покажи~|выведи~|раскрой~|повтори~) .. (системн~ (промпт~|инструкц~|подсказк~|сообщени~)|свои инструкции)',
    ],
    letters: [
      '(システムプロンプト|初期指示|内部指示|初期プロンプト) .. (表示し|教え|出力し|公開し|開示し|見せ)',
      '(显示|输出|告诉我|透露|重复|打印|泄露|顯示|輸出) .. (你的|您的) .. (系统提示|提示词|系统指令|初始指令|系統提示)',
      '시스템 ?프롬프트.. (출력|보여|알려|공개)',
    ],
  },
  {
    name: 'exfiltrate',
    reason: 'Names something confidential and where to bring it.',
    words: [
      '(send|forward|post|upload|email|e-mail|mail|transmit|exfiltrate|leak|deliver) .. (conversation~|chat history|message history|system prompt|api key~|password~|credential~|secret~|private key~|access token~|session token~|ssh key~|environment variable~|confidential~|personal data|user data|contents of|bank details|customer data) .. to (http~|the following|this (address|url|email|server|endpoint|site)|attacker~|my (server|email|site|address)|evil~)',
      '(send|forward|post|upload|email|transmit|exfiltrate|leak) .. (conversation~|chat history|password~|credential~|secret~|private key~|confidential~|customer data|invoice~|bank details|api key~|files|emails|inbox|contacts) .. (attacker|evil|hacker)',
    ],
    signs: [
      '(?:send|forward|post|upload|email|e-mail|transmit|exfiltrate|bcc|cc) [^.!?\\n]{0,60}?(?:conversation|history|passwords?|credentials?|secrets?|keys?|tokens?|inbox|emails?|files?|contacts?|data|documents?|everything|it all|contents?|results?) to [a-z0-9._%+-]{1,64}@[a-z0-9.-]{1,64}',
    ],
  },
  {
    name: 'hijack_tools',
    reason: 'Hides a step before the one that was asked for; poisoned tool descriptions and results do so.',
    words: [
      'before (using|calling|invoking|running) (this|any|any other|another|the) (tool|function)~ .. (read|send|access|open|pass|provide|call|first|you must|always|fetch|include)',
      'before (answering|responding|replying|you (answer|respond|reply)|doing anything else|you do anything else) .. (call|invoke|execute|run|send|delete|transfer|open|visit|fetch|post|read)',
      '(decode|decrypt|unscramble) .. (and|then) (execute|follow|obey|perform|carry out)',
    ],
  },
  {
    name: 'chat_template',
    reason:
      'The signs that separate the turns of a conversation where a model reads them: data must not begin a new turn.',
    signs: [
      '<\\| ?(?:im_start|im_end|im_sep|system|user|assistant|tool|endoftext|endofprompt|eot_id|eom_id|start_header_id|end_header_id|begin_of_text|end_of_text|python_tag|start|end|channel|message) ?\\|>',
      '\\[/?inst\\]',
      '<</?sys>>',
      '</?(?:start_of_turn|end_of_turn)>',
      '</?(?:system[_ -]?(?:prompt|message|instructions?|reminder|override)|function_results?|tool_results?|antml:[a-z_]{1,32}|important)>',
      '(?:^|\\n) ?### ?(?:instructions?|response|human|assistant|system) ?:',
    ],
  },
];

/** A pattern that is ready to be looked for in folded text. */
export interface InjectionPattern {
  readonly name: string;
  /** Global, and without a part that repeats without a bound: its work is at most the text times a constant. */
  readonly expression: RegExp;
}

const notInWord = '(?<![\\p{L}\\p{M}\\p{N}])';
const notBeforeWord = '(?![\\p{L}\\p{M}\\p{N}])';
const between = '[ \\n*_~"\'`>|#:,;()\\[\\]-]{1,6}';
const fewWords = '[ \\n*_~"\'`]{1,4}(?:[\\p{L}\\p{M}\\p{N}-]{1,16}[ \\n*_~"\'`]{1,4}){0,2}';
const gap = `${notBeforeWord}[^.!?]{1,32}?${notInWord}`;
const letterGap = '[^.!?。！？\\n]{0,16}?';

function wordsExpression(source: string): string {
  const body = expressionOf(source, gap, between);
  return `${notInWord}${body}${source.endsWith('~') ? '' : notBeforeWord}`;
}

function expressionOf(source: string, wide: string, narrow: string): string {
  return fold(source)
    .text.replaceAll('.', '\\.')
    .replaceAll(/ ?\\\.\\\. ?/g, '\u0001')
    .replaceAll(' + ', '\u0003')
    .replaceAll('~', '[\\p{L}\\p{M}]{0,10}')
    .replaceAll('(', '(?:')
    .replaceAll(' )', '\u0002)')
    .replaceAll(' ', narrow)
    .replaceAll('\u0002', narrow)
    .replaceAll('\u0003', fewWords)
    .replaceAll('\u0001', wide);
}

/** The patterns of an entry. */
export function compiled({ name, words = [], letters = [], signs = [] }: InjectionEntry): InjectionPattern[] {
  const sources = [
    ...words.map(wordsExpression),
    ...letters.map((source) => expressionOf(source, letterGap, between.replace('{1,6}', '{0,6}'))),
    ...signs,
  ];
  return sources.map((source) => ({ name, expression: new RegExp(source, 'gu') }));
}

let all: readonly InjectionPattern[] | undefined;

/** Compiled with the first text that is scanned: it takes longer than all else that a worker does when it starts. */
export function injectionPatterns(): readonly InjectionPattern[] {
  return (all ??= injectionEntries.flatMap(compiled));
}
