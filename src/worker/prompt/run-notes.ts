/** What this system itself says to a model while a run works. `{tools}` are names of tools, `{count}` is a number. */
interface RunNotes {
  readonly repeated_call: string;
  readonly repeated_error: string;
  readonly stale_steps: string;
  readonly handoff_circle: string;
  readonly withdrawn: string;
  readonly closing: string;
}

/** By language. Each has the same meaning in all of them. */
const notes = {
  en: {
    repeated_call:
      'You have called {tools} {count} times with the same arguments, and the result was the same each time. Do not make this call again: work with the result that you have, try something else, or say what is missing.',
    repeated_error:
      '{tools} has failed {count} times in a row with the same kind of error. Do not try it again in the same way: change what you do, or say what is missing.',
    stale_steps:
      'Your last {count} steps have brought nothing that you did not know before. Answer with what you have, try something else, or say what is missing.',
    handoff_circle:
      'This conversation has been handed over between the same agents {count} times. Do not hand it back: answer the user yourself, or say what is missing.',
    withdrawn: '{tools} cannot be called any more in this turn.',
    closing:
      'This run has reached a limit and ends with your next message. Call no more tools. Answer the user now with what you have found out so far, and say plainly what is not done or not known.',
  },
  de: {
    repeated_call:
      'Du hast {tools} {count}-mal mit denselben Argumenten aufgerufen, und das Ergebnis war jedes Mal dasselbe. Wiederhole diesen Aufruf nicht: Arbeite mit dem Ergebnis, das du hast, versuche etwas anderes, oder sage, was fehlt.',
    repeated_error:
      '{tools} ist {count}-mal nacheinander mit derselben Art von Fehler gescheitert. Versuche es nicht noch einmal auf dieselbe Weise: Ändere dein Vorgehen, oder sage, was fehlt.',
    stale_steps:
      'Deine letzten {count} Schritte haben nichts gebracht, was du nicht schon wusstest. Antworte mit dem, was du hast, versuche etwas anderes, oder sage, was fehlt.',
    handoff_circle:
      'Dieses Gespräch wurde {count}-mal zwischen denselben Agenten weitergegeben. Gib es nicht zurück: Antworte dem Benutzer selbst, oder sage, was fehlt.',
    withdrawn: '{tools} kann in diesem Zug nicht mehr aufgerufen werden.',
    closing:
      'Dieser Lauf hat eine Grenze erreicht und endet mit deiner nächsten Nachricht. Rufe keine Werkzeuge mehr auf. Antworte dem Benutzer jetzt mit dem, was du bisher herausgefunden hast, und sage klar, was nicht erledigt oder nicht bekannt ist.',
  },
  fr: {
    repeated_call:
      'Tu as appelé {tools} {count} fois avec les mêmes arguments, et le résultat était chaque fois le même. Ne refais pas cet appel : travaille avec le résultat que tu as, essaie autre chose, ou dis ce qui manque.',
    repeated_error:
      "{tools} a échoué {count} fois de suite avec le même genre d'erreur. Ne réessaie pas de la même façon : change de méthode, ou dis ce qui manque.",
    stale_steps:
      "Tes {count} dernières étapes n'ont rien apporté que tu ne savais déjà. Réponds avec ce que tu as, essaie autre chose, ou dis ce qui manque.",
    handoff_circle:
      "Cette conversation a été transmise {count} fois entre les mêmes agents. Ne la renvoie pas : réponds toi-même à l'utilisateur, ou dis ce qui manque.",
    withdrawn: '{tools} ne peut plus être appelé dans ce tour.',
    closing:
      "Cette exécution a atteint une limite et se termine avec ton prochain message. N'appelle plus d'outils. Réponds maintenant à l'utilisateur avec ce que tu as trouvé jusqu'ici, et dis clairement ce qui n'est pas fait ou pas connu.",
  },
  es: {
    repeated_call:
      'Has llamado a {tools} {count} veces con los mismos argumentos, y el resultado fue siempre el mismo. No repitas esta llamada: trabaja con el resultado que tienes, prueba otra cosa o di qué falta.',
    repeated_error:
      '{tools} ha fallado {count} veces seguidas con el mismo tipo de error. No lo intentes otra vez de la misma manera: cambia lo que haces o di qué falta.',
    stale_steps:
      'Tus últimos {count} pasos no han aportado nada que no supieras ya. Responde con lo que tienes, prueba otra cosa o di qué falta.',
    handoff_circle:
      'Esta conversación ha pasado {count} veces entre los mismos agentes. No la devuelvas: responde tú al usuario o di qué falta.',
    withdrawn: '{tools} ya no se puede llamar en este turno.',
    closing:
      'Esta ejecución ha llegado a un límite y termina con tu próximo mensaje. No llames a más herramientas. Responde ahora al usuario con lo que has averiguado hasta aquí, y di claramente qué no está hecho o no se sabe.',
  },
  it: {
    repeated_call:
      'Hai chiamato {tools} {count} volte con gli stessi argomenti, e il risultato è stato sempre lo stesso. Non ripetere questa chiamata: lavora con il risultato che hai, prova altro, oppure di che cosa manca.',
    repeated_error:
      '{tools} ha fallito {count} volte di seguito con lo stesso tipo di errore. Non riprovare allo stesso modo: cambia quello che fai, oppure di che cosa manca.',
    stale_steps:
      'I tuoi ultimi {count} passi non hanno portato nulla che non sapessi già. Rispondi con quello che hai, prova altro, oppure di che cosa manca.',
    handoff_circle:
      "Questa conversazione è stata passata {count} volte tra gli stessi agenti. Non restituirla: rispondi tu all'utente, oppure di che cosa manca.",
    withdrawn: '{tools} non si può più chiamare in questo turno.',
    closing:
      "Questa esecuzione ha raggiunto un limite e termina con il tuo prossimo messaggio. Non chiamare altri strumenti. Rispondi ora all'utente con quello che hai trovato finora, e di chiaramente che cosa non è fatto o non è noto.",
  },
  pt: {
    repeated_call:
      'Chamaste {tools} {count} vezes com os mesmos argumentos, e o resultado foi sempre o mesmo. Não repitas esta chamada: trabalha com o resultado que tens, tenta outra coisa ou diz o que falta.',
    repeated_error:
      '{tools} falhou {count} vezes seguidas com o mesmo tipo de erro. Não tentes de novo da mesma maneira: muda o que fazes ou diz o que falta.',
    stale_steps:
      'Os teus últimos {count} passos não trouxeram nada que não soubesses já. Responde com o que tens, tenta outra coisa ou diz o que falta.',
    handoff_circle:
      'Esta conversa passou {count} vezes entre os mesmos agentes. Não a devolvas: responde tu ao utilizador ou diz o que falta.',
    withdrawn: '{tools} já não pode ser chamado neste turno.',
    closing:
      'Esta execução atingiu um limite e termina com a tua próxima mensagem. Não chames mais ferramentas. Responde agora ao utilizador com o que descobriste até aqui, e diz claramente o que não está feito ou não se sabe.',
  },
  nl: {
    repeated_call:
      'Je hebt {tools} {count} keer met dezelfde argumenten aangeroepen, en het resultaat was elke keer hetzelfde. Doe deze aanroep niet nog eens: werk met het resultaat dat je hebt, probeer iets anders, of zeg wat er ontbreekt.',
    repeated_error:
      '{tools} is {count} keer achter elkaar met hetzelfde soort fout mislukt. Probeer het niet nog eens op dezelfde manier: verander je aanpak, of zeg wat er ontbreekt.',
    stale_steps:
      'Je laatste {count} stappen hebben niets gebracht dat je nog niet wist. Antwoord met wat je hebt, probeer iets anders, of zeg wat er ontbreekt.',
    handoff_circle:
      'Dit gesprek is {count} keer tussen dezelfde agenten doorgegeven. Geef het niet terug: antwoord de gebruiker zelf, of zeg wat er ontbreekt.',
    withdrawn: '{tools} kan in deze beurt niet meer worden aangeroepen.',
    closing:
      'Deze run heeft een limiet bereikt en eindigt met je volgende bericht. Roep geen tools meer aan. Antwoord de gebruiker nu met wat je tot nu toe hebt gevonden, en zeg duidelijk wat niet gedaan of niet bekend is.',
  },
  ja: {
    repeated_call:
      '{tools} を同じ引数で {count} 回呼び出し、毎回同じ結果でした。この呼び出しを繰り返さないでください。今ある結果を使うか、別の方法を試すか、何が足りないかを述べてください。',
    repeated_error:
      '{tools} は同じ種類のエラーで {count} 回続けて失敗しました。同じやり方で再試行しないでください。やり方を変えるか、何が足りないかを述べてください。',
    stale_steps:
      '直近の {count} ステップでは新しい情報が得られていません。今ある情報で回答するか、別の方法を試すか、何が足りないかを述べてください。',
    handoff_circle:
      'この会話は同じエージェントの間で {count} 回引き継がれました。引き返さずに、自分でユーザーに回答するか、何が足りないかを述べてください。',
    withdrawn: '{tools} はこのターンではもう呼び出せません。',
    closing:
      'この実行は上限に達し、次のメッセージで終了します。ツールはもう呼び出さないでください。ここまでに分かったことを使って今ユーザーに回答し、終わっていないことや分からないことをはっきり述べてください。',
  },
  zh: {
    repeated_call:
      '你已用相同的参数调用 {tools} {count} 次，每次结果都相同。不要再做这个调用：请使用已有的结果，尝试其他方法，或说明缺少什么。',
    repeated_error: '{tools} 已连续 {count} 次以同一类错误失败。不要再以同样的方式尝试：请改变做法，或说明缺少什么。',
    stale_steps: '你最近的 {count} 个步骤没有带来任何新信息。请用已有的信息回答，尝试其他方法，或说明缺少什么。',
    handoff_circle: '这段对话已在相同的代理之间移交 {count} 次。不要再移交回去：请自己回答用户，或说明缺少什么。',
    withdrawn: '本轮中不能再调用 {tools}。',
    closing:
      '本次运行已达到上限，你的下一条消息将结束它。不要再调用任何工具。请现在就用目前已了解的内容回答用户，并明确说明哪些没有完成或尚不清楚。',
  },
} as const satisfies Record<string, RunNotes>;

/** What a run says to its model, in the language of a BCP 47 tag; English for one that is not here. */
export function runNotes(locale: string): RunNotes {
  const language = locale.toLowerCase().split('-', 1)[0] ?? '';
  return Object.hasOwn(notes, language) ? notes[language as keyof typeof notes] : notes.en;
}

/** Puts the facts into a note. */
export function noteAbout(
  note: string,
  { tools, count }: { readonly tools: readonly string[]; readonly count: number },
) {
  return note.replaceAll('{tools}', () => tools.join(', ')).replaceAll('{count}', () => String(count));
}
