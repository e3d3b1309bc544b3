BEGIN TRANSACTION;
CREATE TABLE accounts (
	id TEXT NOT NULL, 
	record TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "accounts" VALUES('00000000-0000-4000-8000-000000000000-S0','{"id":"00000000-0000-4000-8000-000000000000-S0","name":"vm-1","type":"m1.large","price_per_hour":0.24,"opened_at":1795415396.754192,"until":1795415397.227938,"vm_id":"00000000-0000-4000-8000-000000000000-S0","pool":"","phase":"idle","dollars":3.158305486043294e-05,"found":true,"closed":false,"difference":0.0}#53a512bf');
INSERT INTO "accounts" VALUES('00000000-0000-4000-8000-000000000000-S1','{"id":"00000000-0000-4000-8000-000000000000-S1","name":"vm-2","type":"m1.large","price_per_hour":0.24,"opened_at":1795415396.754192,"until":1795415397.227938,"vm_id":"00000000-0000-4000-8000-000000000000-S1","pool":"","phase":"idle","dollars":3.158305486043295e-05,"found":true,"closed":false,"difference":0.0}#7e03bd3f');
CREATE TABLE applications (
	job INTEGER NOT NULL, 
	has_secret BOOLEAN NOT NULL, 
	record TEXT NOT NULL, 
	PRIMARY KEY (job), 
	FOREIGN KEY(job) REFERENCES jobs (number)
);
CREATE TABLE charged_days (
	day TEXT NOT NULL, 
	pool TEXT NOT NULL, 
	type TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	queue TEXT NOT NULL, 
	policy TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	dollars DOUBLE NOT NULL, 
	PRIMARY KEY (day, pool, type, owner, queue, policy, kind)
)
 WITHOUT ROWID

;
INSERT INTO "charged_days" VALUES('2026-11-23','','m1.large','','','ff','idle',5.69651961326599119792e-05);
INSERT INTO "charged_days" VALUES('2026-11-23','','m1.large','','default','ff','used',6.20091358820597295109e-06);
CREATE TABLE charged_groups (
	day TEXT NOT NULL, 
	"group" TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	dollars DOUBLE NOT NULL, 
	PRIMARY KEY (day, "group", kind)
)
 WITHOUT ROWID

;
INSERT INTO "charged_groups" VALUES('2026-11-23','','idle',5.69651961326599119792e-05);
INSERT INTO "charged_groups" VALUES('2026-11-23','','used',6.20091358820597295109e-06);
CREATE TABLE charged_jobs (
	day TEXT NOT NULL, 
	job TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	dollars DOUBLE NOT NULL, 
	PRIMARY KEY (day, job, kind)
)
 WITHOUT ROWID

;
INSERT INTO "charged_jobs" VALUES('2026-11-23','','idle',5.69651961326599119792e-05);
INSERT INTO "charged_jobs" VALUES('2026-11-23','job-1','used',2.18056440353393576436e-06);
INSERT INTO "charged_jobs" VALUES('2026-11-23','job-2','used',4.02034918467203761065e-06);
CREATE TABLE charged_pools (
	pool TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	dollars DOUBLE NOT NULL, 
	PRIMARY KEY (pool, kind)
)
 WITHOUT ROWID

;
INSERT INTO "charged_pools" VALUES('','idle',5.69651961326599119792e-05);
INSERT INTO "charged_pools" VALUES('','used',6.20091358820597295109e-06);
CREATE TABLE charged_vms (
	day TEXT NOT NULL, 
	vm TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	dollars DOUBLE NOT NULL, 
	PRIMARY KEY (day, vm, kind)
)
 WITHOUT ROWID

;
INSERT INTO "charged_vms" VALUES('2026-11-23','vm-1','idle',2.5382141272226971208e-05);
INSERT INTO "charged_vms" VALUES('2026-11-23','vm-1','used',6.20091358820597295109e-06);
INSERT INTO "charged_vms" VALUES('2026-11-23','vm-2','idle',3.15830548604329475474e-05);
CREATE TABLE comparisons (
	number INTEGER NOT NULL, 
	job INTEGER NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (number), 
	FOREIGN KEY(job) REFERENCES jobs (number)
);
CREATE TABLE estimates (
	job INTEGER NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (job), 
	FOREIGN KEY(job) REFERENCES jobs (number)
);
CREATE TABLE events (
	number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at DOUBLE NOT NULL, 
	job INTEGER, 
	kind TEXT NOT NULL, 
	text TEXT NOT NULL
);
INSERT INTO "events" VALUES(1,1.79541539676916146271e+09,NULL,'vm ready','vm-1 (m1.large): its agent has come');
INSERT INTO "events" VALUES(2,1.79541539676916146271e+09,NULL,'vm ready','vm-2 (m1.large): its agent has come');
INSERT INTO "events" VALUES(3,1.79541539682551860813e+09,1,'submitted','over, to queue default');
INSERT INTO "events" VALUES(4,1.7954153968429269791e+09,1,'decided','ff: 1 of 1 executors placed: vm-1');
INSERT INTO "events" VALUES(5,1.79541539685026669504e+09,1,'launched','executor 0 on vm-1');
INSERT INTO "events" VALUES(6,1.79541539686704778666e+09,1,'starting','its executors are starting');
INSERT INTO "events" VALUES(7,1.79541539687115073208e+09,1,'running','all its executors run');
INSERT INTO "events" VALUES(8,1.79541539696985530849e+09,1,'killed','killed on request');
INSERT INTO "events" VALUES(9,1.79541539697490382197e+09,1,'executors ended','killed: executor 0 on vm-1');
INSERT INTO "events" VALUES(10,1.79541539709638619422e+09,2,'submitted','here, to queue default');
INSERT INTO "events" VALUES(11,1.79541539710375714299e+09,2,'decided','ff: 2 of 2 executors placed: 2 on vm-1');
INSERT INTO "events" VALUES(12,1.79541539710920715336e+09,2,'launched','executors 0, 1 on vm-1');
INSERT INTO "events" VALUES(13,1.79541539711996960644e+09,2,'starting','its executors are starting');
INSERT INTO "events" VALUES(14,1.79541539713041114808e+09,2,'running','all its executors run');
INSERT INTO "events" VALUES(15,1.7954153972212686538e+09,3,'submitted','there, to queue default');
INSERT INTO "events" VALUES(16,1.79541539722630333897e+09,3,'decided','ff: 2 of 2 executors placed: 2 on vm-1');
INSERT INTO "events" VALUES(17,1.79541539723526763919e+09,3,'launched','executors 0, 1 on vm-1; driver on vm-2');
INSERT INTO "events" VALUES(18,1.79541539725066351894e+09,3,'starting','its executors are starting');
INSERT INTO "events" VALUES(19,1.79541539725828504562e+09,3,'running','all its executors run');
INSERT INTO "events" VALUES(20,1.79541539735160303112e+09,4,'submitted','large, to queue default');
INSERT INTO "events" VALUES(21,1.79541539735743236544e+09,5,'submitted','small, to queue default');
INSERT INTO "events" VALUES(22,1.79541539736234235765e+09,4,'waits','room for 0 of 1 executors of 4 cpus and 1024 MiB; of 2 VMs, 2 lack cpus');
CREATE TABLE executors (
	task_id TEXT NOT NULL, 
	job INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	launched_at DOUBLE NOT NULL, 
	record TEXT NOT NULL, 
	PRIMARY KEY (task_id), 
	FOREIGN KEY(job) REFERENCES jobs (number)
);
INSERT INTO "executors" VALUES('job-1.0',1,'killed',1.79541539684369874001e+09,'{"task_id":"job-1.0","job_id":"job-1","number":0,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"ports":[20200],"launched_at":1795415396.8436987,"state":"killed","running_at":1795415396.8705559,"ended_at":1795415396.9745326,"message":"ended with its job","cost":8.722257614135743e-06,"accrued_until":1795415396.9745326,"killed_at":1795415396.9683528,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"share":0.25,"cpus":1.0,"memory_mib":1024,"resources":{}}#87036c98');
INSERT INTO "executors" VALUES('job-2.0',2,'running',1.79541539710732746121e+09,'{"task_id":"job-2.0","job_id":"job-2","number":0,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"ports":[20200],"launched_at":1795415397.1073275,"state":"running","running_at":1795415397.125938,"ended_at":null,"message":"","cost":4.020349184672038e-06,"accrued_until":1795415397.227938,"killed_at":null,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"share":0.25,"cpus":1.0,"memory_mib":1024,"resources":{}}#c9273c68');
INSERT INTO "executors" VALUES('job-2.1',2,'running',1.79541539710732746121e+09,'{"task_id":"job-2.1","job_id":"job-2","number":1,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"ports":[20201],"launched_at":1795415397.1073275,"state":"running","running_at":1795415397.1283228,"ended_at":null,"message":"","cost":4.020349184672038e-06,"accrued_until":1795415397.227938,"killed_at":null,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"share":0.25,"cpus":1.0,"memory_mib":1024,"resources":{}}#085b05ae');
INSERT INTO "executors" VALUES('job-3.0',3,'running',1.79541539722793793681e+09,'{"task_id":"job-3.0","job_id":"job-3","number":0,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"ports":[20202],"launched_at":1795415397.227938,"state":"running","running_at":1795415397.2550352,"ended_at":null,"message":"","cost":0.0,"accrued_until":1795415397.227938,"killed_at":null,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"share":0.25,"cpus":1.0,"memory_mib":1024,"resources":{}}#de02312c');
INSERT INTO "executors" VALUES('job-3.1',3,'running',1.79541539722793793681e+09,'{"task_id":"job-3.1","job_id":"job-3","number":1,"vm_id":"00000000-0000-4000-8000-000000000000-S0","vm_name":"vm-1","vm_type":"m1.large","address":"127.0.8.1","price_per_hour":0.24,"ports":[20203],"launched_at":1795415397.227938,"state":"running","running_at":1795415397.257092,"ended_at":null,"message":"","cost":0.0,"accrued_until":1795415397.227938,"killed_at":null,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"share":0.25,"cpus":1.0,"memory_mib":1024,"resources":{}}#4f261f88');
INSERT INTO "executors" VALUES('job-3.driver-2',3,'running',1.79541539722793793681e+09,'{"task_id":"job-3.driver-2","job_id":"job-3","number":null,"vm_id":"00000000-0000-4000-8000-000000000000-S1","vm_name":"vm-2","vm_type":"m1.large","address":"127.0.8.2","price_per_hour":0.24,"ports":[20400,20401,20402],"launched_at":1795415397.227938,"state":"running","running_at":1795415397.261496,"ended_at":null,"message":"","cost":0.0,"accrued_until":1795415397.227938,"killed_at":null,"replaced":false,"profile":0,"released":false,"decommissioned_at":null,"share":0.25,"cpus":1.0,"memory_mib":1024,"resources":{}}#a2c694a8');
CREATE TABLE explanations (
	number INTEGER NOT NULL, 
	job INTEGER NOT NULL, 
	decision TEXT NOT NULL, 
	body BLOB NOT NULL, 
	PRIMARY KEY (number), 
	FOREIGN KEY(job) REFERENCES jobs (number)
);
INSERT INTO "explanations" VALUES(1,1,'place',X'7801AD92CB6EC32010457F65C4DA8D82E3BCFC0FDD76534516C1434D0BC6E29134B2FCEF1D5C376A9695BAE30E33977B809189C86ABE3F6E2BBEDD1C77AB43551ECB7DC1DEDDB9D12DABF3E289B3820DCE6879A38252A45A943A68D7931E8C9048258F22CC050E4E0107FC4499A2F301E68EB6868B9D9D9448260656BF9E0A263BA7256631B29F0156AF0B76B164BD0C5CBB7C6E16A003C40E41691F22BC3CC355C70EBC731694F3A023E590A26F752BE2E2FADB28DE062427CB5746F8B71C9AB27F2C5182749E76FB64CC9C2B20D1459F30D346A10DF58D53C194476CE49048562B4A3A6B8BD6F95B63F5996E73B739544BDD6370C9CF84E33415E39DABA4C3FF1E470913FE314F7E80FB6D3506556C5CA2FF4054DF803C033EB0AD4B427BA43A4D5FDFBEBCA1');
INSERT INTO "explanations" VALUES(2,2,'place',X'7801DD924D6E83301085AF62794DA2002134DCA1DB6EAA0839665CDCDA18F9276984B87BC794A4A9D24DA52EAAEC78C378FCBE791E28F3B44ACB6DB14E8B7C5B2ED3555E16659AD057B3AF6543ABF8B1C868427BA3243F614108540D70E9A4E950F78A71C09205E6A642468C20198177E0C11BEBC8D4D15458331D39E8458ADD8205E51DAD9E7709E5AD911CA218E8F914AD56093D689C3F1F38B6F1F2288874C4B74084B4CE93A7477294BE25D6184D84B1447A1CCF59D7C886F979EAF5207FEA0127E974A9987D89CE11E06DB6E2B8B1F8B70B4A4DBE1C20A2B70122B2675261DF30A27D0B50F33EA05C2FD1E9A43568634FB5967BDCE9267F58CF750BCE043B110EE3980C17AEB8D7DFDB114CB93FF41303B86CAB56207C6D02BE0AA4FA044C23E037B655866837545FD1E1FBB9DEF8BF8D2EFF39BA22DF9C23BD813C73DD5174BBF103FE5B5068');
INSERT INTO "explanations" VALUES(3,3,'place',X'7801DD52414EC33010FC8AE5735A3576DAD2FC812B175445AEB326063B8E6CA7A58AF277D62114502B248E70CB8CD7E3999D0C54445AE6DBDDBAC8D77CB75D32B6E12BCE33FAEC0E95AE69993E169C66B47346CB33124A21AA41EAA05D8BB8334202521E449808469C228CC02BC83E3A1FC8345197C8B9961CED22C769257A13032D1FF719958DD3121218E8C72D5AAE327AB4A83F5F3835E9F104880E24364094F62192877B72D2B121DE394B94F344479497A2AD752DE2ACFA55289E3B40259B2F8DF04FC939067899AD04E93C9EB6BD3193AF001831FA1E52E428B4C1B96144FB1EA0925D8F902DD1E9842D58E7CF95D507DC69C1F966E63D04D7FB29E1308ED970C9C5F0F1DFDB51C2841FFC14B7FD6CF85D71D34F2AE0B2ADCA808A95EBF1AFC054EF01F324F82DDB8AA1D455AACFEAF23F52DD94ECBA3ACE73767355FFB3BAFDF806D4EE5056');
INSERT INTO "explanations" VALUES(4,4,'wait',X'7801AD92314FC3301085FF8AE5D9AD1227A16DD8D8BBB22014B9CE991A9CB8B21D4A15E5BF73761A040889A553FC9ECE77DF3D67A422D03ADFECAA32AF8ADD665D54DB8C73CEE8AB3D34BAA5753CAC4ACAE8C91A2D2F682885AA05A9BDB63DEAB3D0011D07C227EDACED88B28E64C42A9213F8003904EB7C942591A7C113D1B724CF7849F6FAE13EFA9C3CEE3DC38F11F22DD5604B2506133CAD9F9E199547AB254431D2A523ADFBC11846DFBBE5743E46C2DB114804D5AD08D7C171104E5BE508172E2740D5E56B23DC0BA013D12360AA2047E13181B4AD72000C57EF015A68296EE3A575787BC6C7D53C60924A180F31DA20B4C146E38411E0D52636A175B6CEAEBA83CEBA4BD3E903BE1DE7DBEDD577E0EDE0524AE334B131051369F8BFBC3CF116B7E42DFEE6AD8ABB658F9FBCF191BFE26E0CA8D0D801FF4EAC9E0398D3FABEFCECFC6A337D02C86BE9DD');
CREATE TABLE facts (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "facts" VALUES('schema','16');
INSERT INTO "facts" VALUES('made_at','');
INSERT INTO "facts" VALUES('term','1');
INSERT INTO "facts" VALUES('lease','');
INSERT INTO "facts" VALUES('leader','http://127.0.0.1:5016');
INSERT INTO "facts" VALUES('clock','{"boot": "2bf37913-be59-46ab-8f14-3e4d244a2a3f", "offset": 1795397687.0135968}');
INSERT INTO "facts" VALUES('framework_id','00000000-0000-4000-8000-000000000000-0000');
INSERT INTO "facts" VALUES('probe','90a289f0cf616873');
INSERT INTO "facts" VALUES('charged','e35f56b241dc4c9b');
CREATE TABLE jobs (
	number INTEGER NOT NULL, 
	state TEXT NOT NULL, 
	cost DOUBLE NOT NULL, 
	record TEXT NOT NULL, 
	spec TEXT, 
	accepted_at DOUBLE, 
	idempotency_key TEXT, 
	finished_at DOUBLE, 
	size INTEGER, 
	owner TEXT DEFAULT '' NOT NULL, 
	queue TEXT DEFAULT 'default' NOT NULL, 
	name TEXT DEFAULT '' NOT NULL, 
	job_group TEXT, 
	array_of INTEGER, 
	PRIMARY KEY (number), 
	UNIQUE (idempotency_key)
);
INSERT INTO "jobs" VALUES(1,'killed',8.72225761413574305746e-06,'{"job":{"id":"job-1","type":"unknown","executors":1,"submitted_at":1795415396.8255186,"name":"over","expected_duration":null,"prefers":null,"driver":null,"min_executors":null,"max_runtime":null,"spread":0.08,"owner":"","queue":"default","spark":"4.3","client_driver":"","unix_user":"","dynamic":null,"retries":0,"spot":"allowed","spot_driver":false,"rework":[0.5,0.05],"curve":null,"min_cpus":null,"priority":0,"deadline":null,"restartable":true,"after":[],"start_at":null,"pauses":[1.0,2.0,60.0],"group":"","array":"","index":null,"count":null,"at_most":null,"labels":[],"cpus":1.0,"memory_mib":1024,"resources":{}},"state":"killed","reason":"killed on request","placed_at":1795415396.8436987,"started_at":1795415396.8705559,"finished_at":1795415396.9683528,"exit_code":null,"next_executor":1,"losses":0,"failures":0,"cost":8.722257614135743e-06,"driver_on":"b2e09d7b6eddeaaf@recorded","aborting":false,"retried":0,"free_retries":0,"attempts":[],"failing":"","wanted":[],"capped":"","released_at":null,"grown":[],"gave":[],"took":[],"queued_again_at":null}#6e4561db','{"app":"/apps/sort.py","name":"over","type":"unknown","owner":"","queue":"default","priority":null,"deadline":null,"restartable":true,"executors":1,"min_executors":null,"cpus":1.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"archives":[],"packages":[],"repositories":[],"conf":{},"env":{},"driver":null,"spark":null,"spot":"allowed","retries":0,"retry":null,"after":[],"start_at":null,"group":"","labels":{},"count":null,"at_most":null,"max_runtime":null}#33becb42',1.79541539682551860813e+09,'over',1.79541539696835279467e+09,NULL,'','default','over',NULL,NULL);
INSERT INTO "jobs" VALUES(2,'running',8.0406983693440752213e-06,'{"job":{"id":"job-2","type":"sort","executors":2,"submitted_at":1795415397.0963862,"name":"here","expected_duration":1011.6666666666666,"prefers":"spread","driver":null,"min_executors":null,"max_runtime":null,"spread":0.08,"owner":"","queue":"default","spark":"4.3","client_driver":"","unix_user":"","dynamic":null,"retries":0,"spot":"allowed","spot_driver":false,"rework":[0.06,0.0],"curve":[15.0,1000.0,0.04,1.0,24576,2.0,0.0],"min_cpus":null,"priority":0,"deadline":null,"restartable":true,"after":[],"start_at":null,"pauses":[1.0,2.0,60.0],"group":"","array":"","index":null,"count":null,"at_most":null,"labels":[],"cpus":1.0,"memory_mib":1024,"resources":{}},"state":"running","reason":"its driver runs","placed_at":1795415397.1073275,"started_at":1795415397.1283228,"finished_at":null,"exit_code":null,"next_executor":2,"losses":0,"failures":0,"cost":8.040698369344075e-06,"driver_on":"b2e09d7b6eddeaaf@recorded","aborting":false,"retried":0,"free_retries":0,"attempts":[],"failing":"","wanted":[],"capped":"","released_at":null,"grown":[],"gave":[],"took":[],"queued_again_at":null}#960a4e2e','{"app":"/apps/sort.py","name":"here","type":"sort","owner":"","queue":"default","priority":null,"deadline":null,"restartable":true,"executors":2,"min_executors":null,"cpus":1.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"archives":[],"packages":[],"repositories":[],"conf":{},"env":{},"driver":null,"spark":null,"spot":"allowed","retries":0,"retry":null,"after":[],"start_at":null,"group":"","labels":{},"count":null,"at_most":null,"max_runtime":null}#3151f089',1.79541539709638619422e+09,'here',NULL,NULL,'','default','here',NULL,NULL);
INSERT INTO "jobs" VALUES(3,'running',0.0,'{"job":{"id":"job-3","type":"unknown","executors":2,"submitted_at":1795415397.2212687,"name":"there","expected_duration":null,"prefers":null,"driver":{"cpus":1.0,"memory_mib":1024},"min_executors":1,"max_runtime":null,"spread":0.08,"owner":"","queue":"default","spark":"4.3","client_driver":"","unix_user":"","dynamic":null,"retries":0,"spot":"allowed","spot_driver":false,"rework":[0.5,0.05],"curve":null,"min_cpus":null,"priority":0,"deadline":null,"restartable":true,"after":[],"start_at":null,"pauses":[1.0,2.0,60.0],"group":"","array":"","index":null,"count":null,"at_most":null,"labels":[],"cpus":1.0,"memory_mib":1024,"resources":{}},"state":"running","reason":"all its executors run","placed_at":1795415397.227938,"started_at":1795415397.257092,"finished_at":null,"exit_code":null,"next_executor":3,"losses":0,"failures":0,"cost":0.0,"driver_on":"","aborting":false,"retried":0,"free_retries":0,"attempts":[],"failing":"","wanted":[],"capped":"","released_at":null,"grown":[],"gave":[],"took":[],"queued_again_at":null}#2ced3c92','{"app":"/apps/sort.py","name":"there","type":"unknown","owner":"","queue":"default","priority":null,"deadline":null,"restartable":true,"executors":2,"min_executors":1,"cpus":1.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"archives":[],"packages":[],"repositories":[],"conf":{},"env":{},"driver":{"on":"cluster","cpus":1.0,"memory":1024,"spot":"never"},"spark":null,"spot":"allowed","retries":0,"retry":null,"after":[],"start_at":null,"group":"","labels":{},"count":null,"at_most":null,"max_runtime":null}#ff3faf83',1.7954153972212686538e+09,'there',NULL,NULL,'','default','there',NULL,NULL);
INSERT INTO "jobs" VALUES(4,'queued',0.0,'{"job":{"id":"job-4","type":"unknown","executors":1,"submitted_at":1795415397.351603,"name":"large","expected_duration":null,"prefers":null,"driver":null,"min_executors":null,"max_runtime":null,"spread":0.08,"owner":"","queue":"default","spark":"4.3","client_driver":"","unix_user":"","dynamic":null,"retries":0,"spot":"allowed","spot_driver":false,"rework":[0.5,0.05],"curve":null,"min_cpus":null,"priority":0,"deadline":null,"restartable":true,"after":[],"start_at":null,"pauses":[1.0,2.0,60.0],"group":"","array":"","index":null,"count":null,"at_most":null,"labels":[],"cpus":4.0,"memory_mib":1024,"resources":{}},"state":"queued","reason":"room for 0 of 1 executors of 4 cpus and 1024 MiB; of 2 VMs, 2 lack cpus","placed_at":null,"started_at":null,"finished_at":null,"exit_code":null,"next_executor":0,"losses":0,"failures":0,"cost":0.0,"driver_on":"","aborting":false,"retried":0,"free_retries":0,"attempts":[],"failing":"","wanted":[],"capped":"","released_at":null,"grown":[],"gave":[],"took":[],"queued_again_at":null}#7aaf72b4','{"app":"/apps/sort.py","name":"large","type":"unknown","owner":"","queue":"default","priority":null,"deadline":null,"restartable":true,"executors":1,"min_executors":null,"cpus":4.0,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"archives":[],"packages":[],"repositories":[],"conf":{},"env":{},"driver":null,"spark":null,"spot":"allowed","retries":0,"retry":null,"after":[],"start_at":null,"group":"","labels":{},"count":null,"at_most":null,"max_runtime":null}#6eb1750b',1.79541539735160303112e+09,'large',NULL,NULL,'','default','large',NULL,NULL);
INSERT INTO "jobs" VALUES(5,'queued',0.0,'{"job":{"id":"job-5","type":"unknown","executors":1,"submitted_at":1795415397.3574324,"name":"small","expected_duration":null,"prefers":null,"driver":null,"min_executors":null,"max_runtime":null,"spread":0.08,"owner":"","queue":"default","spark":"4.3","client_driver":"","unix_user":"","dynamic":null,"retries":0,"spot":"allowed","spot_driver":false,"rework":[0.5,0.05],"curve":null,"min_cpus":null,"priority":0,"deadline":null,"restartable":true,"after":[],"start_at":null,"pauses":[1.0,2.0,60.0],"group":"","array":"","index":null,"count":null,"at_most":null,"labels":[],"cpus":0.5,"memory_mib":1024,"resources":{}},"state":"queued","reason":"waits for its turn","placed_at":null,"started_at":null,"finished_at":null,"exit_code":null,"next_executor":0,"losses":0,"failures":0,"cost":0.0,"driver_on":"","aborting":false,"retried":0,"free_retries":0,"attempts":[],"failing":"","wanted":[],"capped":"","released_at":null,"grown":[],"gave":[],"took":[],"queued_again_at":null}#ad8011b6','{"app":"/apps/sort.py","name":"small","type":"unknown","owner":"","queue":"default","priority":null,"deadline":null,"restartable":true,"executors":1,"min_executors":null,"cpus":0.5,"memory":1024,"resources":{},"args":[],"main_class":null,"py_files":[],"files":[],"jars":[],"archives":[],"packages":[],"repositories":[],"conf":{},"env":{},"driver":null,"spark":null,"spot":"allowed","retries":0,"retry":null,"after":[],"start_at":null,"group":"","labels":{},"count":null,"at_most":null,"max_runtime":null}#0206e9bf',1.79541539735743236544e+09,'small',NULL,NULL,'','default','small',NULL,NULL);
CREATE TABLE labels (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	job INTEGER NOT NULL, 
	PRIMARY KEY (name, value, job), 
	FOREIGN KEY(job) REFERENCES jobs (number)
)
 WITHOUT ROWID

;
CREATE TABLE leases (
	id TEXT NOT NULL, 
	pool TEXT NOT NULL, 
	state TEXT NOT NULL, 
	asked_at DOUBLE NOT NULL, 
	closed_at DOUBLE, 
	record TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE pool_setbacks (
	id TEXT NOT NULL, 
	record TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE quarantine (
	number INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	body BLOB NOT NULL, 
	why TEXT NOT NULL, 
	found_at DOUBLE NOT NULL, 
	PRIMARY KEY (number)
);
CREATE TABLE reservations (
	id TEXT NOT NULL, 
	record TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE sums (
	name TEXT NOT NULL, 
	state TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	cost DOUBLE NOT NULL, 
	size INTEGER NOT NULL, 
	PRIMARY KEY (name, state)
);
INSERT INTO "sums" VALUES('jobs','queued',2,0.0,0);
INSERT INTO "sums" VALUES('jobs','placing',0,0.0,0);
INSERT INTO "sums" VALUES('executors','launching',0,0.0,0);
INSERT INTO "sums" VALUES('jobs','starting',0,0.0,0);
INSERT INTO "sums" VALUES('executors','starting',0,0.0,0);
INSERT INTO "sums" VALUES('jobs','running',2,8.0406983693440752213e-06,0);
INSERT INTO "sums" VALUES('executors','running',5,0.0,0);
INSERT INTO "sums" VALUES('jobs','killed',1,8.72225761413574305746e-06,0);
INSERT INTO "sums" VALUES('executors','killed',1,0.0,0);
CREATE TABLE token_uses (
	id TEXT NOT NULL, 
	day TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE users (
	id TEXT NOT NULL, 
	record TEXT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE INDEX jobs_by_owner ON jobs (owner, state, number, queue);
CREATE INDEX jobs_by_queue ON jobs (queue, state, number);
CREATE INDEX jobs_by_state ON jobs (state, number);
CREATE INDEX jobs_by_name ON jobs (owner, name, number);
CREATE INDEX jobs_of_array_of ON jobs (array_of, number) WHERE array_of IS NOT NULL;
CREATE INDEX jobs_over ON jobs (finished_at, number) WHERE finished_at IS NOT NULL;
CREATE INDEX jobs_of_job_group ON jobs (job_group, number) WHERE job_group IS NOT NULL;
CREATE INDEX jobs_unmeasured ON jobs (finished_at) WHERE finished_at IS NOT NULL AND size IS NULL;
CREATE INDEX events_by_job ON events (job) WHERE job IS NOT NULL;
CREATE INDEX ix_leases_state ON leases (state);
CREATE INDEX ix_leases_closed_at ON leases (closed_at);
CREATE INDEX charged_jobs_by_job ON charged_jobs (job);
CREATE INDEX labels_by_job ON labels (job);
CREATE INDEX ix_executors_job ON executors (job);
CREATE INDEX ix_executors_state ON executors (state);
CREATE INDEX explanations_by_job ON explanations (job, decision);
CREATE INDEX comparisons_by_job ON comparisons (job);
CREATE TRIGGER jobs_added AFTER INSERT ON jobs BEGIN
    INSERT INTO sums (name, state, number, cost, size) VALUES ('jobs', new.state, 1,
        CASE WHEN abs(new.cost) <= 1e15 THEN new.cost ELSE 0 END, coalesce(new.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    END;
CREATE TRIGGER jobs_changed AFTER UPDATE OF state, cost, size ON jobs BEGIN
    UPDATE sums SET number = number - 1, size = size - coalesce(old.size, 0),
        cost = cost - CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END
    WHERE name = 'jobs' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('jobs', new.state, 1,
        CASE WHEN abs(new.cost) <= 1e15 THEN new.cost ELSE 0 END, coalesce(new.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    END;
CREATE TRIGGER jobs_deleted AFTER DELETE ON jobs BEGIN
    UPDATE sums SET number = number - 1, size = size - coalesce(old.size, 0),
        cost = cost - CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END
    WHERE name = 'jobs' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('pruned', old.state, 1,
        CASE WHEN abs(old.cost) <= 1e15 THEN old.cost ELSE 0 END, coalesce(old.size, 0))
    ON CONFLICT (name, state) DO UPDATE SET
        number = number + 1, cost = cost + excluded.cost, size = size + excluded.size;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('highest', '', old.number, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = max(number, excluded.number);
    END;
CREATE TRIGGER executors_added AFTER INSERT ON executors BEGIN
    INSERT INTO sums (name, state, number, cost, size) VALUES ('executors', new.state, 1, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = number + 1;
    END;
CREATE TRIGGER executors_changed AFTER UPDATE OF state ON executors BEGIN
    UPDATE sums SET number = number - 1 WHERE name = 'executors' AND state = old.state;
    INSERT INTO sums (name, state, number, cost, size) VALUES ('executors', new.state, 1, 0, 0)
    ON CONFLICT (name, state) DO UPDATE SET number = number + 1;
    END;
CREATE TRIGGER executors_deleted AFTER DELETE ON executors BEGIN
    UPDATE sums SET number = number - 1 WHERE name = 'executors' AND state = old.state;
    END;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('events',22);
COMMIT;
